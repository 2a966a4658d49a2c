"""Build the site into build/site, or say what is wrong with it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from docsite.assembly import assemble
from docsite.links import problems
from docsite.navigation import missing_pages, with_pages

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PAGES, SITE, CONFIG = BUILD / "docs", BUILD / "site", BUILD / "zensical.toml"


def main() -> int:
    """Assemble, build and check; return 0 if there is nothing to say."""
    for folder in (PAGES, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    assemble(ROOT, PAGES)
    config = with_pages((ROOT / "docsite" / "zensical.toml").read_text(encoding="utf-8"), PAGES)
    if missing := missing_pages(config, PAGES):
        return _failed("The pages and the navigation in docsite/zensical.toml differ in these:", missing)
    CONFIG.write_text(config, encoding="utf-8")
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
        cwd=BUILD,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if built.returncode or "warning" in built.stdout.lower():
        return _failed("Zensical cannot build the site:", [built.stdout])
    if found := problems(SITE):
        return _failed("These links lead nowhere:", found)
    print(f"{len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(ROOT)}; every link leads somewhere.")
    print(f"To read them: {Path(sys.executable).name} -m http.server --bind 127.0.0.1 --directory build/site 8000")
    return 0


def _failed(sentence: str, details: list[str]) -> int:
    print(sentence, *details, sep="\n", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
