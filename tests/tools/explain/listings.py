"""Listings as nvdisasm prints them, written by hand."""

HEAD = """\t.target\tsm_90a

\t.elftype\t@"ET_EXEC"


//--------------------- .text.{name}          --------------------------
\t.section\t.text.{name},"ax",@progbits
\t.align\t128
        .global         {name}
        .type           {name},@function
        .size           {name},(.L_x_9 - {name})
{name}:
.text.{name}:
"""


def listing(lines: str, name: str = "kernel") -> str:
    """A listing of one kernel: of every line that is no label and no comment one instruction is made."""
    text, address = HEAD.format(name=name), 0
    for line in filter(None, map(str.strip, lines.splitlines())):
        if line.endswith(":"):
            text += f"{line}\n"
        elif line.startswith("//"):
            text += f"\t{line}\n"
        else:
            predicate, _, rest = line.partition(" ") if line.startswith("@") else ("", "", line)
            text += f"        /*{address:04x}*/         {predicate:>10} {rest} ;\n"
            address += 16
    return text + "\n\n//--------------------- SYMBOLS --------------------------\n\n\t.type\tother,@function\n"
