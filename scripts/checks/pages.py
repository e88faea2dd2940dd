"""Reads a page of Markdown as far as checks of the documentation need it: prose, blocks of code, and comments before them."""

import pathlib
import re
import subprocess
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

ITEM = re.compile(r"^\s*(?:[*+-]|\d+[.)])\s+")
FENCE = re.compile(r"^\s*(```+|~~~+)\s*(.*)$")
TABLE_RULE = re.compile(r"^\s*\|?[\s:|-]+\|?\s*$")


class Unclosed(ValueError):
    """A fence or a comment without an end: the rest of the page would be taken for a part of it."""


@dataclass
class Piece:
    """A part of a page. Kinds: paragraph, item, cell, fence, indented."""

    kind: str
    number: int  # of the first line, from 1
    text: str
    language: str = ""  # what a fence begins with
    comments: tuple = ()  # that stand directly before a block of code


def names():
    """The pages that people read: those of the root, and all of docs."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()
    return sorted(name for name in set(listed) if ("/" not in name or name.startswith("docs/")) and (ROOT / name).exists())


def listed(path):
    """The pages that a list names, which only shrinks."""
    named = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    return [name for name in named if name]


def shrink(path, stays):
    """Takes those off a list that are gone, or need not stay."""
    lines = path.read_text().splitlines()
    kept = [line for line in lines if line.startswith("#") or (ROOT / line).exists() and stays(line)]
    path.write_text("\n".join(kept) + "\n")


def pieces(lines):
    """All parts of a page, in order."""
    found, comments = [], []
    index = 0
    paragraph = None

    def end():
        nonlocal paragraph
        if paragraph:
            kind, start, text = paragraph
            found.append(Piece(kind, start, " ".join(text)))
        paragraph = None

    while index < len(lines):
        line, number = lines[index], index + 1
        bare = line.strip()
        if fenced := FENCE.match(line):
            end()
            text = []
            index += 1
            while index < len(lines) and not lines[index].strip().startswith(fenced[1]):
                text.append(lines[index])
                index += 1
            if index == len(lines):
                raise Unclosed(f"the fence of line {number} has no end")
            index += 1
            found.append(Piece("fence", number, outdented(text), fenced[2].strip(), tuple(comments)))
            comments = []
            continue
        if bare.startswith("<!--"):
            end()
            text = [bare]
            while "-->" not in lines[index] and index + 1 < len(lines):
                index += 1
                text.append(lines[index].strip())
            if "-->" not in lines[index]:
                raise Unclosed(f"the comment of line {number} has no end")
            comments.append(" ".join(text).removeprefix("<!--").removesuffix("-->").strip())
            index += 1
            continue
        if not bare:
            end()
            index += 1
            continue
        # Inside a paragraph or an item an indented line goes on with it.
        if paragraph is None and re.match(r"    |\t", line) and not in_list(lines, index):
            text = []
            while index < len(lines) and (not lines[index].strip() or re.match(r"    |\t", lines[index])):
                text.append(lines[index])
                index += 1
            found.append(Piece("indented", number, outdented(text), "", tuple(comments)))
            comments = []
            continue
        if bare.startswith("#") or bare.startswith("{{#") or len(bare) > 2 and set(bare) <= set("=-*_ "):
            end()
            comments = []
        elif bare.startswith("|"):
            end()
            comments = []
            if not TABLE_RULE.match(line):
                found += [Piece("cell", number, cell.strip()) for cell in re.split(r"(?<!\\)\|", bare.strip("|"))]
        elif ITEM.match(line):
            end()
            comments = []
            paragraph = "item", number, [ITEM.sub("", line).strip()]
        else:
            comments = []
            if paragraph is None:
                paragraph = "paragraph", number, []
            paragraph[2].append(bare.lstrip("> "))
        index += 1
    end()
    return found


def outdented(lines):
    """Without the indent that all lines share, nor empty lines at the ends."""
    full = [line for line in lines if line.strip()]
    indent = min((len(line) - len(line.lstrip()) for line in full), default=0)
    return "\n".join(line[indent:] for line in lines).strip("\n")


def in_list(lines, index):
    """Whether an indented line goes on with an item of a list, after an empty line, rather than being a listing."""
    indent = len(lines[index]) - len(lines[index].lstrip())
    for line in reversed(lines[:index]):
        if not line.strip():
            continue
        if item := ITEM.match(line):
            return indent < item.end() + 4
        if not line.startswith(" "):
            return False
    return False
