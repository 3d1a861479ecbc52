"""Content that is no audio, or that would have other files and hosts opened."""

from __future__ import annotations

import io
import random
import socket
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import numpy as np
import pytest

from audio.sounds import decoded, encode, rejection, tone, wav
from volery.units import Reason


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A real recording that only a followed reference could reach."""
    path = tmp_path / "secret.wav"
    path.write_bytes(wav(tone(1.0, 16_000), 16_000))
    return path


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def hls(target: str) -> str:
    return f"#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:2\n#EXTINF:1.0,\n{target}\n#EXT-X-ENDLIST\n"


def concat(target: str) -> str:
    return f"ffconcat version 1.0\nfile '{target}'\n"


def sdp(target: str) -> str:
    return (
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n"
        f"a=control:{target}\nm=audio 5004 RTP/AVP 0\na=rtpmap:0 PCMU/8000\n"
    )


def dash(target: str) -> str:
    return (
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
        'mediaPresentationDuration="PT1S"><Period><AdaptationSet mimeType="audio/wav">'
        f'<Representation id="1" bandwidth="1"><BaseURL>{target}</BaseURL></Representation>'
        "</AdaptationSet></Period></MPD>"
    )


def pls(target: str) -> str:
    return f"[playlist]\nFile1={target}\nNumberOfEntries=1\n"


Playlist = Callable[[str], str]
PLAYLISTS: list[Playlist] = [hls, concat, sdp, dash, pls]


def test_ffmpeg_left_alone_would_follow_a_playlist(secret: Path, tmp_path: Path) -> None:
    (tmp_path / "list.ffconcat").write_text(concat(secret.name))
    with av.open(str(tmp_path / "list.ffconcat")) as container:
        assert sum(frame.samples for frame in container.decode(audio=0)) == 16_000


@pytest.mark.parametrize("playlist", PLAYLISTS)
def test_a_playlist_is_not_followed_to_a_file(
    playlist: Playlist, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(secret.parent)
    for target in (str(secret), secret.name, secret.as_uri(), "/etc/passwd"):
        assert rejection(playlist(target).encode()) is Reason.AUDIO_UNDECODABLE


@pytest.mark.parametrize("playlist", PLAYLISTS)
def test_a_playlist_is_not_followed_to_a_host(playlist: Playlist, listener: socket.socket) -> None:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/audio.wav"
    assert rejection(playlist(url).encode()) is Reason.AUDIO_UNDECODABLE
    with pytest.raises(BlockingIOError):
        listener.accept()


@pytest.mark.parametrize("seed", range(40))
def test_random_bytes_are_undecodable(seed: int) -> None:
    chance = random.Random(seed)
    assert rejection(chance.randbytes(chance.randrange(1, 400_000))) is Reason.AUDIO_UNDECODABLE


def test_text_is_undecodable() -> None:
    source = Path(__file__).read_text()
    for text in (
        "a",
        "hello world\n" * 1000,
        source,
        source * 50,
        '{"key": 1}',
        "1\n00:00:01,000 --> 00:00:02,000\nhi\n",
    ):
        assert rejection(text.encode()) is Reason.AUDIO_UNDECODABLE
        assert rejection(text.encode("utf-16")) is Reason.AUDIO_UNDECODABLE


def test_other_kinds_of_file_are_undecodable() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("audio.wav", wav(tone(1.0, 16_000), 16_000))
    picture = b"\x89PNG\r\n\x1a\n" + bytes(100)
    pdf = b"%PDF-1.7\n" + random.Random(1).randbytes(50_000)
    for content in (archive.getvalue(), picture, pdf, b"\x7fELF" + bytes(5000), bytes(100_000), b"\xff" * 100_000):
        assert rejection(content) is Reason.AUDIO_UNDECODABLE


@pytest.mark.parametrize("kind", ["<i2", ">i2", "<i4", "<f4", "u1"])
def test_numbers_without_a_header_are_undecodable(kind: str) -> None:
    for seed in range(60):
        random_numbers = np.random.default_rng(seed)
        table = np.where(random_numbers.random(2000) < 0.8, -1, random_numbers.integers(0, 600, 2000))
        noise = random_numbers.standard_normal(30_000) * random_numbers.choice([0.7, 10, 300]) - 1
        for numbers in (table, noise):
            assert rejection(numbers.astype(np.int64).astype(kind).tobytes()) is Reason.AUDIO_UNDECODABLE


def test_numbers_in_which_ffmpeg_finds_a_stream_but_no_rate_are_undecodable() -> None:
    noise = np.random.default_rng(78).standard_normal(30_000) * 10 - 1
    assert rejection(noise.astype(">i2").tobytes()) is Reason.AUDIO_UNDECODABLE


def test_a_frame_or_two_and_then_nonsense_are_a_chance_find() -> None:
    content = encode(tone(1.0, 44_100), 44_100, "adts aac")
    starts = [place for place in range(len(content)) if content[place : place + 2] == b"\xff\xf1"]
    noise = random.Random(1).randbytes(20_000)
    assert rejection(content[starts[4] : starts[6]] + noise) is Reason.AUDIO_UNDECODABLE
    assert decoded(content[starts[4] : starts[14]] + noise).truncated
