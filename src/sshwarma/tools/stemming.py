"""Words of a text: tokens, inflections, stems and synonyms.

English only, because names and descriptions of tools nearly always are; words of other languages
match only as they are written.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+[+#]*")
"""Letters and digits, with the signs of `c++` and `c#`; each character of unspaced scripts."""

_APOSTROPHE: Final = re.compile(r"(?<=\w)['’](?=\w)")

_VOWELS: Final = frozenset("aeiouy")

MAX_WORD_LETTERS: Final = 64
"""Letters of a word that are compared."""

_MAX_CACHED_WORDS: Final = 8_192
"""Words whose forms are cached; a world has a few thousand."""

_STOP_WORD_LIST: Final = """
    a about all also am an and any anyone are as at be because been before being both but by can
    cannot cant could did didnt do does doesnt doing done dont down each else even ever every for
    from gave get gets getting give go goes going gonna gone got had has hasnt have havent having he
    hello hello help helping her here hers hey hi him his how i id if ill im in instead into is isnt
    it its itself ive just kind kindly know let lets like lot make makes making many may maybe me
    might mine more most much must my myself need needs never new no not now of off oh ok okay on
    once one only or other our ours out over own please quite rather really right she should so some
    somebody someone something somewhere sort still such sure take tell than thank thanks that thats
    the their them then there theres these they theyre thing things think this those to too tool
    tools up us use used using very via want wanted wants was way we well were what whatever whats
    when where whether which while who whom whose why will with without wont would yes yet you your
    yours
"""

STOP_WORDS: Final = frozenset(_STOP_WORD_LIST.split())
"""Stop words."""

_SENSE_GROUPS: Final = """
    create add new make generate build write compose draft insert
    start begin launch run open boot trigger execute kick
    stop end halt cancel abort kill shut terminate close quit pause
    delete remove erase drop destroy discard purge wipe clear rid trash
    list show view display see browse enumerate overview inspect look
    update edit change modify alter amend adjust revise correct tweak rename
    find search locate query discover lookup hunt seek
    fix repair resolve mend solve patch heal debug troubleshoot
    deploy ship release publish rollout launch promote
    push upload send submit deliver post
    pull download fetch retrieve get receive import
    undo revert rollback restore reset recover
    copy duplicate clone replicate mirror
    move transfer migrate relocate shift
    merge combine join unite integrate
    split divide separate break
    connect link attach bind associate relate tie
    approve accept confirm permit allow grant sign
    reject deny refuse decline block forbid ban
    check verify test validate inspect examine audit lint
    compare diff difference contrast versus
    measure benchmark profile time
    count number amount total quantity sum
    store save keep persist archive back
    buy purchase order acquire
    pay payment charge bill invoice money cost price fee owe
    refund reimburse repay
    error bug defect fault failure issue crash exception broken wrong fail
    slow latency performance speed lag fast
    alert alarm warn notify page remind notification
    log trace record history audit
    password secret credential token key login
    user account member person people customer client employee colleague staff teammate
    team group crew department
    permission access right role privilege
    machine server host instance vm computer node box
    container docker pod image
    database db table sql schema
    file document doc attachment
    folder directory path
    picture photo image drawing illustration graphic
    mail email message letter inbox
    talk chat conversation discuss conversation thread
    meeting appointment calendar event schedule booking
    task todo ticket issue card chore
    website site page web url
    code source program software script
    repository repo project codebase
    branch fork
    version release tag
    requirement spec specification need
    chart graph plot visualize dashboard diagram
    table spreadsheet sheet row column cell
    translate language localize
    summary summarize digest recap brief
    question answer ask faq
    rule policy regulation
    weather forecast rain temperature sunny snow storm
    place map location address route direction
    travel trip flight hotel journey
    song music audio sound voice speech track
    video film movie clip recording
    hire recruit candidate applicant job
    vacation leave holiday absence
    contract agreement deal
    stock inventory warehouse supply
    ship parcel package delivery courier
    network dns domain ip firewall
    certificate ssl tls https
    schedule cron timer periodic recurring
    queue job worker background
    backup snapshot archive
    flag toggle switch feature experiment
    dependency package library module
    vulnerability security cve exploit attack
    encrypt decrypt cipher
"""
"""Synonyms: the words of one line are close in meaning for tools."""


def extract_words(text: str) -> list[str]:
    """The words of a text, in order, normalized: case and width are ignored.

    Letters after the first MAX_WORD_LETTERS of a word are ignored too.
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    return [word[:MAX_WORD_LETTERS] for word in _WORD.findall(_APOSTROPHE.sub("", plain))]


@lru_cache(maxsize=_MAX_CACHED_WORDS)
def inflections(word: str) -> frozenset[str]:
    """The word with its plural, past and -ing forms.

    Forms are generated, not stripped: `plan` gives `plans`, `planned`, `planning`, so that words
    which only share a prefix, such as `plane` or `planet`, do not count as forms of it.
    """
    forms = {word}
    if not (word.isascii() and word.isalpha()):
        return frozenset(forms)
    if len(word) < 3:  # `prs` is a plural, `its` and `has` are not
        short = len(word) == 2 and word[-1] not in _VOWELS and word not in STOP_WORDS
        return frozenset({word, word + "s"} if short else forms)
    if singular := _singular_of(word):
        forms.add(singular)
    elif word not in ("new", "news"):
        forms.add(_plural_of(word))
    last, before = word[-1], word[-2]
    if last == "e" and before != "e":
        forms |= {word + "d", word[:-1] + "ing"}
    elif last == "y" and before not in _VOWELS:
        forms |= {word[:-1] + "ied", word + "ing"}
    elif _VOWELS & set(word):
        closed = last not in "aeiouwxy" and before in "aeiou" and word[-3] not in "aeiou"
        if closed:
            forms |= {word + last + "ed", word + last + "ing"}
        if not closed or len(word) > 4:
            forms |= {word + "ed", word + "ing"}
    return frozenset(forms)


def _singular_of(word: str) -> str:
    """The singular of a likely plural; empty for other words."""
    if not word.endswith("s") or word.endswith(("ss", "us", "is")) or len(word) < 4:
        return ""
    if word == "news":  # not the plural of `new`
        return ""
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word[:-1]


def _plural_of(word: str) -> str:
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in _VOWELS:
        return word[:-1] + "ies"
    return word + "s"


_ENDINGS: Final = ("ation", "ition", "ement", "ment", "ion", "ness", "able", "er", "or", "ly", "al")


@lru_cache(maxsize=_MAX_CACHED_WORDS)
def stem(word: str) -> str:
    """The common stem of a word family: `deploy`, `deployed` and `deployment` share one.

    It overstems here and there. That is good enough for similarity; use `inflections` for whole
    words.
    """
    if not (word.isascii() and word.isalpha()):
        return word
    word = _singular_of(word) or word
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) > 2 and _VOWELS & set(rest) and not word.endswith("eed"):
            word = rest
            break
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) > 3:
            word = word.removesuffix(ending)
            break
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    word = word.removesuffix("e") if len(word) > 3 else word
    return word[:-1] + "i" if len(word) > 3 and word.endswith("y") else word


def _index_senses() -> dict[str, tuple[str, ...]]:
    senses: dict[str, tuple[str, ...]] = {}
    for line in _SENSE_GROUPS.strip().splitlines():
        group = line.split()
        for word in dict.fromkeys(stem(word) for word in group):
            senses[word] = (*senses.get(word, ()), group[0])
    return senses


SENSES: Final = _index_senses()
"""The synonym groups of a stem, each named by the first word of its line."""
