#!/bin/bash
# Builds the engines of others into bench/rivals/target: rivals-rust, rivals-melin, rivals-java, rivals-go.
#
#   bench/rivals/build.sh [rust] [melin] [java] [go]     (without a name: rust, java and go)
#
# Where the Go module proxy does not serve geseq's modules, GESEQ=FOLDER names a folder with checkouts
# of geseq/orderbook and geseq/udecimal in it, as go/go.mod names their commits.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
mkdir -p target

need() {
    command -v "$1" > /dev/null && return
    echo "bench/rivals/build.sh $2 takes $1, which is not here: $3" >&2
    exit 1
}

build_rust() {
    need cargo rust "see https://rustup.rs"
    cargo build --release --locked --target-dir target/rust
    cp target/rust/release/rivals target/rivals-rust
}

# Asked for by name only: its licence, BUSL-1.1, allows use that is not production.
build_melin() {
    need cargo melin "see https://rustup.rs"
    cargo build --release --locked --target-dir target/melin --features melin
    cp target/melin/release/rivals target/rivals-melin
}

build_java() {
    need java java "install a JDK of 17 or later, as openjdk-17-jdk-headless"
    need mvn java "install Maven, as the package maven"
    mvn -q -B -f java/pom.xml compile dependency:copy-dependencies -DoutputDirectory=../target/java/libraries
    cp java/rivals-java target/rivals-java
}

build_go() {
    need go go "install Go 1.23 or later, as the package golang"
    local module=go.mod
    if [ -n "${GESEQ:-}" ]; then
        local sources
        sources=$(readlink -f "$GESEQ")
        mkdir -p target/go
        module=../target/go/geseq.mod
        cp go/go.mod target/go/geseq.mod
        cp go/go.sum target/go/geseq.sum
        for name in orderbook udecimal; do
            [ -f "$sources/$name/go.mod" ] || { echo "there is no $sources/$name/go.mod" >&2; exit 1; }
            (cd go && go mod edit -replace "github.com/geseq/$name=$sources/$name" "$module")
        done
    fi
    (cd go && go build -modfile "$module" -o ../target/rivals-go .) || {
        echo "if the proxy does not serve geseq's modules, build from checkouts: GESEQ=FOLDER $0 go" >&2
        exit 1
    }
}

[ $# -gt 0 ] || set -- rust java go
for name; do
    case "$name" in
    rust | melin | java | go) "build_$name" ;;
    *) echo "there is no $name; there are rust, melin, java and go" >&2; exit 2 ;;
    esac
done
echo "built; run damrak bench book with --rivals bench/rivals/target/rivals-… for each"
