"""Pictures and PDFs made fit for a model, however large, damaged or odd they are."""

from __future__ import annotations

import base64
import io
import random
from collections.abc import Callable

import msgspec
import pypdf
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageDraw, ImageStat

from outrider.errors import AttachmentError
from outrider.providers.catalogue.capabilities import Capabilities, capabilities_of
from outrider.providers.rendering import documents
from tests.conversations import JPEG_BYTES, PDF_BYTES, PNG_BYTES
from tests.lengths import examples

CAN = Capabilities(image="native")


def picture(width: int, height: int, kind: str, mode: str = "RGB", noise: bool = False) -> bytes:
    output = io.BytesIO()
    if noise:
        size = width * height * len(Image.new(mode, (1, 1)).tobytes())
        image = Image.frombytes(mode, (width, height), random.Random(7).randbytes(size))
    else:
        image = Image.new(mode, (width, height))
    image.save(output, kind)
    return output.getvalue()


def scan(pages: int, width: float = 200, height: float = 300, compressed: bool = False) -> bytes:
    """A PDF without any text, as a scanner makes it."""
    writer = pypdf.PdfWriter()
    for _ in range(pages):
        writer.add_blank_page(width, height)
    output = io.BytesIO()
    writer.write(output)
    if not compressed:
        return output.getvalue()
    # The form in which modern writers keep the page objects: where none can be seen from outside.
    return output.getvalue().replace(b"/Type /Page\n", b"/Type /P#61ge\n").replace(b"/Type /Page ", b"/Type /P#61ge ")


def objection(read: Callable[[bytes], object], data: bytes) -> str:
    """What is said against a file; nothing if it can be used."""
    try:
        read(data)
    except AttachmentError as error:
        return str(error)
    return ""


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@given(st.binary(max_size=200))
def test_the_encoded_size_is_that_of_the_encoded_data(data: bytes) -> None:
    assert documents.base64_of(data) == base64.b64encode(data)
    assert documents.encoded_size(data) == len(documents.base64_of(data))


@pytest.mark.parametrize(("size", "fits"), [(750, True), (751, False)])
def test_limits_are_about_the_encoded_size(size: int, fits: bool) -> None:
    if fits:
        documents.check_size(bytes(size), 1000)
        return
    with pytest.raises(AttachmentError, match="it has 1004 bytes in base64; this model takes 1000 bytes"):
        documents.check_size(bytes(size), 1000)


@pytest.mark.parametrize(("mime_type", "data"), [("image/png", PNG_BYTES), ("image/jpeg", JPEG_BYTES)])
def test_a_picture_that_fits_is_sent_as_it_is(mime_type: str, data: bytes) -> None:
    assert documents.fitting_image(mime_type, data, CAN) == (mime_type, data)


def test_a_picture_of_a_phone_is_sent_as_it_is_to_a_model_that_takes_it() -> None:
    heic = b"\0\0\0\x18ftypheic" + bytes(1_000)
    can = capabilities_of("gemini", "gemini-3-pro")
    assert documents.fitting_image("image/heic", heic, can) == ("image/heic", heic)
    with pytest.raises(AttachmentError, match="this model takes 1000 bytes"):
        documents.fitting_image("image/heic", heic, msgspec.structs.replace(can, image_bytes=1_000))
    with pytest.raises(AttachmentError, match="not a picture that can be read"):
        documents.fitting_image("image/heic", heic, CAN)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_picture_with_too_long_a_side_is_scaled_down_in_proportion(kind: str) -> None:
    can = Capabilities(image="native", pixels=100)
    mime_type, data = documents.fitting_image(f"image/{kind.lower()}", picture(400, 200, kind), can)
    assert opened(data).size == (100, 50)
    assert mime_type == f"image/{str(opened(data).format).lower()}"


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_a_picture_with_too_many_bytes_is_made_smaller_than_the_limit(mode: str) -> None:
    can = Capabilities(image="native", image_bytes=40_000)
    large = picture(300, 300, "PNG", mode, noise=True)
    assert documents.encoded_size(large) > can.image_bytes
    mime_type, data = documents.fitting_image("image/png", large, can)
    assert documents.encoded_size(data) <= can.image_bytes
    assert mime_type == ("image/webp" if mode == "RGBA" else "image/jpeg")
    assert (opened(data).mode == "RGBA") is (mode == "RGBA"), "what can be seen through stays so"


def screenshot(width: int, height: int) -> Image.Image:
    """Windows with text, and a photo in one of them."""
    image, rng = Image.new("RGB", (width, height), "white"), random.Random(3)
    draw = ImageDraw.Draw(image)
    for number in range(200):
        draw.text((rng.randrange(width), rng.randrange(height)), f"some words {number}", fill=(rng.randrange(256),) * 3)
    small = Image.frombytes("RGB", (width // 16, height // 16), rng.randbytes(width // 16 * (height // 16) * 3))
    image.paste(small.resize((width // 2, height // 2), Image.Resampling.BICUBIC), (width // 4, height // 4))
    return image


def stored(image: Image.Image, kind: str, **options: int) -> bytes:
    output = io.BytesIO()
    image.save(output, kind, **options)
    return output.getvalue()


def test_a_screenshot_that_only_is_packed_badly_loses_nothing() -> None:
    image = screenshot(800, 600)
    wasteful = stored(image, "PNG", compress_level=0)
    can = Capabilities(image="native", image_bytes=documents.encoded_size(wasteful) // 2)
    mime_type, data = documents.fitting_image("image/png", wasteful, can)
    assert mime_type == "image/png"
    assert opened(data).convert("RGB").tobytes() == image.tobytes()


def test_where_png_is_not_enough_a_better_lossless_form_is_taken_if_the_api_knows_it() -> None:
    image = screenshot(800, 600)
    webp = stored(image, "WEBP", lossless=True, quality=0, method=0)
    limit = documents.encoded_size(webp)
    assert documents.encoded_size(stored(image, "PNG")) > limit
    can = Capabilities(image="native", image_bytes=limit)
    mime_type, data = documents.fitting_image("image/png", stored(image, "PNG"), can)
    assert mime_type == "image/webp"
    assert opened(data).convert("RGB").tobytes() == image.tobytes()


def test_then_quality_goes_before_size_and_no_more_of_it_than_has_to() -> None:
    image = screenshot(800, 600)
    png = stored(image, "PNG")
    for quality, next_better in ((95, None), (85, 95), (75, 85)):
        limit = documents.encoded_size(stored(image, "JPEG", quality=quality))
        if next_better:
            assert documents.encoded_size(stored(image, "JPEG", quality=next_better)) > limit
        can = Capabilities(image="native", image_bytes=limit)
        mime_type, data = documents.fitting_image("image/png", png, can)
        assert (mime_type, opened(data).size) == ("image/jpeg", (800, 600))
        assert data == stored(image, "JPEG", quality=quality)


def test_only_then_is_it_scaled_down() -> None:
    image = screenshot(800, 600)
    limit = documents.encoded_size(stored(image, "JPEG", quality=75)) - 4
    mime_type, data = documents.fitting_image("image/png", stored(image, "PNG"), Capabilities(image_bytes=limit))
    assert (mime_type, opened(data).size) == ("image/jpeg", (600, 450))


def test_a_photo_is_not_made_larger_by_keeping_each_of_its_pixels() -> None:
    photo = stored(screenshot(800, 600), "JPEG", quality=100)
    can = Capabilities(image="native", image_bytes=documents.encoded_size(photo) - 4)
    mime_type, data = documents.fitting_image("image/jpeg", photo, can)
    assert (mime_type, opened(data).size) == ("image/jpeg", (800, 600))


def test_a_picture_of_six_megabytes_fits_the_limit_of_claude_in_all_its_pixels() -> None:
    image = screenshot(1920, 1080)
    heavy = stored(image, "PNG", compress_level=0)
    assert len(heavy) > 6_000_000
    can = capabilities_of("anthropic", "claude-sonnet-4-5")
    mime_type, data = documents.fitting_image("image/png", heavy, can)
    assert documents.encoded_size(data) <= can.image_bytes
    assert (mime_type, opened(data).convert("RGB").tobytes() == image.tobytes()) == ("image/png", True)


@pytest.mark.parametrize(
    ("types", "kind"), [(CAN.image_types, "image/webp"), (("image/jpeg", "image/png"), "image/png")]
)
def test_what_can_be_seen_through_stays_so(types: tuple[str, ...], kind: str) -> None:
    can = Capabilities(image="native", image_bytes=40_000, image_types=types)
    mime_type, data = documents.fitting_image("image/png", picture(300, 300, "PNG", "RGBA", noise=True), can)
    assert (mime_type, opened(data).mode) == (kind, "RGBA")


def test_a_picture_with_transparency_that_nothing_uses_is_as_good_as_without() -> None:
    image = screenshot(400, 300).convert("RGBA")
    limit = documents.encoded_size(stored(image.convert("RGB"), "JPEG", quality=85))
    mime_type, data = documents.fitting_image("image/png", stored(image, "PNG"), Capabilities(image_bytes=limit))
    assert (mime_type, opened(data).size) == ("image/jpeg", (400, 300))


def scanned_book(pages: int) -> bytes:
    images = [screenshot(700 + page, 900) for page in range(pages)]
    output = io.BytesIO()
    images[0].save(output, "PDF", save_all=True, append_images=images[1:], quality=100)
    return output.getvalue()


def test_a_pdf_that_is_too_large_keeps_its_pages_and_gets_smaller_pictures() -> None:
    book = scanned_book(3)
    can = Capabilities(pdf="native", pdf_bytes=documents.encoded_size(book) // 2)
    smaller = documents.fitting_pdf(book, can)
    assert documents.encoded_size(smaller) <= can.pdf_bytes
    assert documents.pages_of(smaller) == 3
    before, after = (documents.pdf_pictures(each, 400)[0][1] for each in (book, smaller))
    assert opened(before).size == opened(after).size
    difference = ImageChops.difference(opened(before).convert("L"), opened(after).convert("L"))
    assert ImageStat.Stat(difference).mean[0] < 5, "it looks the same"


def test_a_pdf_that_fits_is_sent_as_it_is_and_one_that_nothing_helps_is_refused() -> None:
    book = scanned_book(1)
    assert documents.fitting_pdf(book, Capabilities(pdf_bytes=documents.encoded_size(book))) is book
    with pytest.raises(AttachmentError, match="this model takes 1000 bytes"):
        documents.fitting_pdf(book, Capabilities(pdf_bytes=1000))
    with pytest.raises(AttachmentError, match="it has 3 pages; this model takes 2"):
        documents.fitting_pdf(scan(3), Capabilities(pdf_pages=2))


def test_a_picture_that_cannot_be_made_small_enough_is_refused() -> None:
    with pytest.raises(AttachmentError, match="cannot be made small enough"):
        documents.fitting_image("image/png", picture(200, 200, "PNG", noise=True), Capabilities(image_bytes=100))


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "PPM", "ICO"])
@pytest.mark.parametrize("side", [1, 16, 300])
def test_a_picture_of_a_kind_that_no_model_takes_is_converted(kind: str, side: int) -> None:
    original = picture(side, side, kind, "RGBA" if kind == "ICO" else "RGB")
    mime_type, data = documents.fitting_image(f"image/{kind.lower()}", original, CAN)
    assert mime_type in CAN.image_types
    assert opened(data).size == opened(original).size


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "F"])
def test_pictures_of_every_colour_mode_can_be_converted(mode: str) -> None:
    _, data = documents.fitting_image("image/tiff", picture(80, 80, "TIFF", mode), CAN)
    assert opened(data).size == (80, 80)


def test_a_photo_is_rotated_before_its_exif_data_is_dropped() -> None:
    output = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    Image.new("RGB", (400, 200)).save(output, "JPEG", exif=exif)
    _, data = documents.fitting_image("image/jpeg", output.getvalue(), Capabilities(pixels=100))
    assert opened(data).size == (50, 100)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x89PNG\r\n\x1a\n", b"\x89PNG\r\n\x1a\n" + b"x" * 100, b"GIF89a", b"not a picture at all", JPEG_BYTES[:30]],
)
def test_what_is_no_picture_is_refused_in_the_same_words_each_time(data: bytes) -> None:
    said = set()
    for _ in range(2):
        with pytest.raises(AttachmentError) as raised:
            documents.fitting_image("image/png", data, CAN)
        said.add(str(raised.value))
    assert said == {"it is not a picture that can be read"}


@settings(max_examples=examples(60))
@given(st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP"]), st.data())
def test_a_damaged_picture_is_sent_or_refused_and_nothing_else(kind: str, draw: st.DataObject) -> None:
    whole = bytearray(picture(90, 70, kind, noise=True))
    for _ in range(draw.draw(st.integers(1, 5))):
        whole[draw.draw(st.integers(0, len(whole) - 1))] = draw.draw(st.integers(0, 255))
    damaged = bytes(whole[: draw.draw(st.integers(0, len(whole)))])
    can = Capabilities(image="native", pixels=64)
    said = objection(lambda data: documents.fitting_image("image/x-unknown", data, can), damaged)
    assert said in ("", "it is not a picture that can be read")


def test_a_picture_with_absurdly_many_pixels_is_refused() -> None:
    bomb = bytearray(PNG_BYTES)
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2
    with pytest.raises(AttachmentError, match="not a picture"):
        documents.fitting_image("image/png", bytes(bomb), CAN)


def test_the_text_of_a_pdf_has_all_its_pages() -> None:
    text = documents.pdf_text(PDF_BYTES)
    assert text.startswith("[page 1]\nThird quarter\n")
    assert "\n\n[page 2]\nWhat we learned\n" in text


def test_a_scan_has_no_text() -> None:
    assert documents.pdf_text(scan(2)) == ""


@pytest.mark.parametrize(("pages", "shown"), [(1, 1), (3, 3), (25, documents.MAX_PAGES_AS_PICTURES)])
def test_the_pages_of_a_scan_become_pictures_up_to_a_number(pages: int, shown: int) -> None:
    pictures, total = documents.pdf_pictures(scan(pages), 2000)
    assert (len(pictures), total) == (shown, pages)
    assert opened(pictures[0]).size == (300, 450)


def test_a_page_as_large_as_a_house_becomes_a_picture_that_fits() -> None:
    (data,), _ = documents.pdf_pictures(scan(1, 14_000, 7_000), 1000)
    assert max(opened(data).size) <= 1000


@pytest.mark.parametrize("pages", [1, 7, 120])
@pytest.mark.parametrize("compressed", [False, True])
def test_pages_are_counted_also_where_they_cannot_be_seen_from_outside(pages: int, compressed: bool) -> None:
    assert documents.pages_of(scan(pages, compressed=compressed)) == pages


def test_the_pages_of_what_is_no_pdf_cannot_be_counted() -> None:
    with pytest.raises(AttachmentError):
        documents.pages_of(b"%PDF-1.7 nonsense")


@pytest.mark.parametrize("data", [b"", b"%PDF-1.7", b"%PDF-1.7\nnonsense\n%%EOF", PDF_BYTES[:700]])
def test_what_is_no_pdf_is_refused(data: bytes) -> None:
    for read in (documents.pdf_text, lambda data: documents.pdf_pictures(data, 1000)):
        with pytest.raises(AttachmentError, match=r"^it is not a PDF that can be read$"):
            read(data)


def test_a_pdf_with_a_password_is_refused() -> None:
    writer = pypdf.PdfWriter()
    writer.add_blank_page(10, 10)
    writer.encrypt("secret", algorithm="RC4-128")
    output = io.BytesIO()
    writer.write(output)
    for read in (documents.pdf_text, documents.pages_of):
        with pytest.raises(AttachmentError, match="it is protected with a password; save it without one first"):
            read(output.getvalue())


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(0, len(PDF_BYTES) - 1), st.integers(0, 255)), min_size=1, max_size=30))
def test_a_damaged_pdf_is_read_or_refused_and_nothing_else(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(PDF_BYTES)
    for place, byte in changes:
        damaged[place] = byte
    for read in (documents.pdf_text, documents.pages_of, lambda data: documents.pdf_pictures(data, 100)):
        assert objection(read, bytes(damaged)) in ("", "it is not a PDF that can be read")


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.integers(0, len(PDF_BYTES) - 1), st.integers(0, 255)), min_size=1, max_size=30))
@example([(PDF_BYTES.index(b"/Kids"), 48)])  # the list of pages has no name any more
def test_a_damaged_pdf_keeps_its_pages_when_it_is_made_smaller(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(PDF_BYTES)
    for place, byte in changes:
        damaged[place] = byte

    def keep_pages(data: bytes) -> None:
        smaller = documents.fitting_pdf(data, Capabilities(pdf_bytes=1000))
        assert documents.pages_of(smaller) == documents.pages_of(data)

    said = objection(keep_pages, bytes(damaged))
    assert said == "" or said.startswith(("it is not a PDF that can be read", "encoded it has ", "it has "))
