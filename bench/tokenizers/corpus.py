"""Texts that tokenizers are compared on: package descriptions in four languages, and odd ones.

Needs the standard library alone.
"""

import random
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

LISTS = Path("/var/lib/apt/lists")
LANGUAGES = ("en", "de", "fr", "ja")

_SEED = 5

# What normalizers, pre-tokenizers and vocabularies stumble over. Each stands alone, between words,
# and in random company.
_ODD = (
    "",
    " ",
    "   ",
    "\t\n\r\x0b\x0c ",
    "\r\n\r\n",
    "a\r\nb",
    "a\u0085b\u2028c\u2029d",
    "\x00",
    "fox\x00fox",
    "\x01\x02\x1f\x7f\x80\x9f",
    "\ufeffbom\ufffe\uffff\ufffd",
    "\u200b\u200c\u200d\u2060\u00ad",
    "a\u200db\u200cc",
    "e\u0301e\u0301\u0323 o\u0308",
    "\u0301",
    "\u0301\u0302\u0303 start",
    "a" + "\u0300" * 40,
    "Ａｂｃ１２３！　ﾊﾟﾋﾟﾌﾟ",
    "ﬁﬂ ﬀ ½ ² № ℡ ㎏ ㍿ ™ …",
    "ÀÉÎÕÜ ßẞ İıIi ΣΑΣ σας Ǆǅǆ ﬀ",
    "Łódź Đà Nẵng søren æther œuvre þorn",
    "naïve façade Ångström Å Å",
    "日本語のテキスト。カタカナ、ひらがな",
    "中文字符,简体和繁體「引號」",
    "한국어 문장입니다 ㄱㄴㄷ 각각",
    "\u1100\u1161\u11a8 \u1112\u1161\u11ab",
    "\u3042\u3099\u304b\u3099\u30cf\u309a",
    "שלום עולם בְּרֵאשִׁית",
    "مرحبا بالعالم السَّلامُ عليكم ﷺ ﷲ",
    "हिन्दी में वाक्य क्षत्रिय",
    "ภาษาไทยไม่มีช่องว่าง กำ น้ำ",
    "தமிழ் நிகழ்நிலை",
    "ພາສາລາວ ນ້ຳ",
    "བོད་སྐད་",
    "မြန်မာဘာသာ",
    "አማርኛ ქართული Հայերեն ᏣᎳᎩ",
    "😀😃🎉🔥",
    "👨‍👩‍👧‍👦 👩🏽‍💻 👍🏿 ❤️ ☺︎",
    "🇫🇷🇩🇪🇯🇵🇺",
    "1️⃣ #️⃣ *️⃣",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "𝒜𝓁𝑔𝑒𝒷𝓇𝒶 𝟘𝟙𝟚 𐍈𐌰𐌹",
    "𠀀𠮷野家 \U0002f800\U0003134a",
    "\U0010fffd\U000f0000\ue000",
    "▁ ▁▁ a▁b ▁the the▁",
    "Ġ Ċ ĠĠhello",
    "## ##ing a##b",
    "<s> </s> <unk> <pad> <mask> <s>a</s>",
    "[CLS] [SEP] [UNK] [PAD] [MASK] [CLS]a[SEP]",
    "<|endoftext|> <|im_start|>user<|im_end|> <think>x</think>",
    "<0x41><0xE2>",
    "'s 't 're 've 'm 'll 'd 'S 'LL 'ſ don't I'VE",
    "1234567890 3.14159 1,000,000 ١٢٣ १२३ Ⅳ ⑳",
    "a_b-c/d\\e|f{g}[h](i)<j>=k+l*m^n%o$p#q@r!s?t;u:v'w\"x`y~z",
    "https://example.org/a/b?c=d&e=%20#f user@example.org",
    "def f(x):\n    return {'a': [1, 2, 3]}\n\n\n\tif x:\n        pass\n",
    " leading and trailing  ",
    "two  three   four    five     spaces",
    "a\u00a0b\u2003c\u3000d\u1680e\u202ff\u205fg",
    "a" * 99,
    "a" * 100,
    "a" * 101,
    "é" * 60,
    "ab" * 2000,
    "=" * 500,
    " " * 3000,
    "word " * 2000,
    "漢" * 1500,
    "🦊" * 400,
    "x" * 20000,
    "supercalifragilisticexpialidocious pneumonoultramicroscopicsilicovolcanoconiosis",
)


# Where scripts begin whose characters join, change or are wide.
_BLOCKS = (0, 0x80, 0x300, 0x590, 0x900, 0xE00, 0x1100, 0x2000, 0x3000, 0xFB00)


class CorpusMissing(Exception):
    """No translations of package descriptions on this machine; the message says how to get them."""


def descriptions(lists: Path = LISTS) -> list[str]:
    """Every package description of a Debian release in the four languages, shuffled.

    Raises CorpusMissing.
    """
    texts: list[str] = []
    for language in LANGUAGES:
        paths = sorted(lists.glob(f"*_dists_*_main_i18n_Translation-{language}*"))
        if not paths:
            raise CorpusMissing(
                f"no descriptions in {language!r} below {lists}: run "
                f"apt-get update -o Acquire::Languages={','.join(LANGUAGES)}"
            )
        for path in paths:
            texts += _descriptions(_content(path))
    random.Random(_SEED).shuffle(texts)
    return texts


def _content(path: Path) -> str:
    # apt keeps its lists as it likes: packed by lz4, mostly.
    command = ["/usr/lib/apt/apt-helper", "cat-file", str(path)]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()


def _descriptions(page: str) -> Iterator[str]:
    """The long description of each package with its title: paragraphs of lines, each indented."""
    lines: list[str] = []
    for line in page.splitlines():
        if line.startswith("Description-") and not line.startswith("Description-md5"):
            lines = [line.partition(": ")[2]]
        elif line.startswith(" ") and lines:
            lines.append("" if line == " ." else line[1:])
        elif lines:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def odd_texts(count: int = 3000) -> list[str]:
    """The odd texts, and random mixtures of them and of all of Unicode. Without lone surrogates."""
    draw = random.Random(_SEED)
    texts = [*_ODD, *(f"the {odd} fox" for odd in _ODD), *(f"fox{odd}fox" for odd in _ODD)]
    short = [odd for odd in _ODD if len(odd) < 100]
    while len(texts) < count:
        kind = draw.random()
        if kind < 0.5:
            parts = draw.choices(short, k=draw.randint(2, 6))
            texts.append(draw.choice(("", " ", "\n", "a")).join(parts))
        elif kind < 0.75:
            start = draw.choice(_BLOCKS)
            texts.append("".join(_scalar(draw, start, 0x400) for _ in range(draw.randint(1, 30))))
        else:
            texts.append("".join(_scalar(draw, 0, 0x110000) for _ in range(draw.randint(1, 30))))
    return texts[:count]


def _scalar(draw: random.Random, start: int, count: int) -> str:
    """A random code point that is no surrogate."""
    code = start + draw.randrange(count)
    return chr(code) if not 0xD800 <= code < 0xE000 else " "


def of_tokens(texts: Sequence[str], tokens: int, count: int) -> list[str]:
    """Texts of about so many tokens, four characters each: long ones cut, short ones joined."""
    characters, made, text = 4 * tokens, [], ""
    for piece in texts:
        text = f"{text}\n{piece}" if text else piece
        if len(text) >= characters:
            made.append(text[:characters])
            text = ""
        if len(made) == count:
            break
    return made
