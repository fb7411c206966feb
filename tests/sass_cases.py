"""Questions that tests of kernels ask of machine code. `compiled.py` records the answers, for this very text."""

import re

_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?(.*?);")
_LABEL = re.compile(r"^\s*(\.L_x_\d+):", re.MULTILINE)
_PRODUCT = "HGMMA"


def loop_of_products(text):
    """The smallest loop with all of a kernel's wgmma instructions, and what follows it."""
    first, last = text.index(_PRODUCT), text.rindex(_PRODUCT)
    labels = {found[1]: found.end() for found in _LABEL.finditer(text)}
    for branch in re.finditer(r"BRA.*?`\((\.L_x_\d+)\)[^\n]*", text[last:]):
        if labels[branch[1]] < first:
            end = last + branch.end()
            return text[labels[branch[1]] : end], text[end:]
    raise ValueError("no loop has all of the products")


def of_products(text):
    """For a kernel of wgmma instructions: how many there are, and which instructions come too early for them."""
    return {"products": text.count(_PRODUCT), "written early": written_early(text)}


def of_loop(text):
    """For the loop of a kernel of wgmma instructions, twice since its next step follows, and the code behind it: how
    many there are, which come too early, and whether one is found to be early where a wait in the loop is shorter."""
    loop, rest = loop_of_products(text.replace("IGMMA", _PRODUCT))  # of integers
    shorter = (loop + loop).replace("gsb0, 0x3", "gsb0, 0x4")
    return {
        "products": loop.count(_PRODUCT),
        "written early": written_early(loop + loop + rest),
        "found with a shorter wait": bool(written_early(shorter)),
    }


def of_arithmetic(text):
    """For a kernel of CUDA cores: how many instructions compute, and how many move elements to shared memory and back,
    of each kind."""
    found = [line.partition(" ")[0].partition(".")[0] for line in _INSTRUCTION.findall(text)]
    return {name: found.count(name) for name in ("FFMA", "FADD", "FMUL", "LDS", "LDGSTS")}


def written_early(text):
    """Instructions that write a register of A while a product may read it: from its start to a wait that covers it."""
    started, groups, found = set(), [], []
    for line in _INSTRUCTION.findall(text):
        opcode, _, rest = line.partition(" ")
        operands = [one.strip() for one in rest.split(",")]
        if opcode.startswith(_PRODUCT):
            if in_register := re.match(r"R(\d+)", operands[1]):
                started |= set(range(int(in_register[1]), int(in_register[1]) + 4))
            if "gsb0" in operands:
                groups.append(started)
                started = set()
        elif opcode.startswith("WARPGROUP.DEPBAR"):
            groups = groups[max(len(groups) - int(operands[-1], 16), 0) :]
        elif (into := re.fullmatch(r"R(\d+)", operands[0])) and not opcode.startswith(("ST", "SYNCS")):
            width = 4 if ".128" in opcode else 2 if ".64" in opcode else 1
            read = started.union(*groups)
            found += [line] * any(int(into[1]) + i in read for i in range(width))
    return found
