"""A result as JSON, plain text, subtitles or RTTM."""

from volery.export.formats import Format, export
from volery.export.names import file_name

__all__ = ["Format", "export", "file_name"]
