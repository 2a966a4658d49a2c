"""The files of a project that say what a program runs, though the command line does not name them."""

from __future__ import annotations

_COMPOSE = tuple(
    f"{stem}{override}.{suffix}"
    for stem in ("compose", "docker-compose")
    for override in ("", ".override")
    for suffix in ("yaml", "yml")
)
_TASKFILES = tuple(
    f"{stem}{dist}.{end}" for stem in ("Taskfile", "taskfile") for dist in ("", ".dist") for end in ("yml", "yaml")
)
_MISE = tuple(
    f"{folder}{name}.toml"
    for folder, names in (
        ("", ("mise", "mise.local", ".mise", ".mise.local")),
        ("mise/", ("config", "config.local")),
        (".mise/", ("config", "config.local")),
        (".config/", ("mise", "mise.local")),
        (".config/mise/", ("config", "config.local", "mise", "mise.local")),
    )
    for name in names
)
_MAVEN = (
    "pom.xml",
    ".mvn/extensions.xml",
    ".mvn/maven.config",
    ".mvn/jvm.config",
    ".mvn/wrapper/maven-wrapper.properties",
)
_GRADLE = (
    *(f"{stem}.gradle{kotlin}" for stem in ("build", "settings") for kotlin in ("", ".kts")),
    *("gradle.properties", "gradle/wrapper/gradle-wrapper.properties"),
)
_RAKE = ("rakefile", "Rakefile", "rakefile.rb", "Rakefile.rb")
_BAZEL = ("MODULE.bazel", "WORKSPACE", "WORKSPACE.bazel", "BUILD", "BUILD.bazel", ".bazelrc")
TASK_FILES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": _TASKFILES,
    "mise": (*_MISE, ".tool-versions"),
    "direnv": (".envrc",),
    "npm": ("package.json", ".npmrc"),
    "pnpm": ("package.json", ".npmrc", ".pnpmfile.cjs", ".pnpmfile.mjs", "pnpm-workspace.yaml"),
    "yarn": ("package.json", ".npmrc", ".yarnrc.yml", ".yarnrc", ".pnp.cjs", ".pnp.loader.mjs"),
    "bun": ("package.json", ".npmrc", "bunfig.toml"),
    "rushx": ("package.json",),
    "turbo": ("turbo.json", "turbo.jsonc", "package.json"),
    "nx": ("nx.json", "package.json"),
    "lerna": ("lerna.json", "package.json"),
    "deno": ("deno.json", "deno.jsonc", "package.json"),
    "gulp": tuple(
        f"{stem}.{end}" for stem in ("gulpfile", "Gulpfile") for end in ("js", "mjs", "cjs", "ts", "babel.js")
    ),
    "grunt": ("Gruntfile.js", "Gruntfile.coffee", "gruntfile.js", "Gruntfile.cjs"),
    "uv": ("pyproject.toml", "uv.toml"),
    "poetry": ("pyproject.toml", "poetry.toml"),
    "pdm": ("pyproject.toml", "pdm.toml"),
    "hatch": ("pyproject.toml", "hatch.toml"),
    "rye": ("pyproject.toml",),
    "pixi": ("pixi.toml", "pyproject.toml", ".pixi/config.toml"),
    "poe": ("pyproject.toml", "poe_tasks.toml", "poe_tasks.yaml", "poe_tasks.yml", "poe_tasks.json"),
    "pipenv": ("Pipfile",),
    "nox": ("noxfile.py", "pyproject.toml"),
    "tox": ("tox.ini", "tox.toml", "setup.cfg", "pyproject.toml"),
    **dict.fromkeys(
        ("invoke", "inv"), ("tasks.py", "tasks/__init__.py", "invoke.yaml", "invoke.yml", "invoke.json", "invoke.py")
    ),
    "fab": ("fabfile.py", "fabfile/__init__.py"),
    "rake": (*_RAKE, "Gemfile"),
    "bundle": ("Gemfile", "gems.rb", ".bundle/config", *_RAKE),
    "composer": ("composer.json",),
    "mix": ("mix.exs", "config/config.exs", ".formatter.exs"),
    **dict.fromkeys(
        ("docker", "podman"), (*_COMPOSE, "Dockerfile", "Containerfile", "docker-bake.hcl", "docker-bake.json")
    ),
    **dict.fromkeys(("docker-compose", "podman-compose"), (*_COMPOSE, "Dockerfile", "Containerfile")),
    "tilt": ("Tiltfile", "tilt_config.json"),
    "skaffold": ("skaffold.yaml", "skaffold.yml"),
    **dict.fromkeys(("foreman", "honcho", "overmind"), ("Procfile", ".foreman", ".overmind.env")),
    "devbox": ("devbox.json",),
    "nix": ("flake.nix", "flake.lock", "shell.nix", "default.nix"),
    **dict.fromkeys(("nix-shell", "nix-build"), ("shell.nix", "default.nix")),
    "cargo": ("Cargo.toml", "build.rs", ".cargo/config.toml", ".cargo/config", "rust-toolchain.toml", "rust-toolchain"),
    "go": ("go.mod", "go.work"),
    **dict.fromkeys(("mvn", "mvnw"), _MAVEN),
    **dict.fromkeys(("gradle", "gradlew"), _GRADLE),
    "ant": ("build.xml",),
    "sbt": ("build.sbt", "project/plugins.sbt", "project/build.properties", ".sbtopts"),
    **dict.fromkeys(("bazel", "bazelisk"), _BAZEL),
    "cmake": ("CMakeLists.txt", "CMakePresets.json", "CMakeUserPresets.json"),
    "ninja": ("build.ninja",),
    "scons": ("SConstruct", "Sconstruct", "sconstruct"),
    "zig": ("build.zig", "build.zig.zon"),
    "swift": ("Package.swift",),
}
"""Programs that run what files of the project say, and these files."""
