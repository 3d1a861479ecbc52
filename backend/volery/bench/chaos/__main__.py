"""`python -m volery.bench.chaos`. Worker processes import this module too, so it imports nothing by itself."""

if __name__ == "__main__":
    import typer

    from volery.bench.chaos.command import chaos

    typer.run(chaos)
