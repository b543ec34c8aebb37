# The Python host over the native library, with ds4-mini but without the default model: name one with -m or
# DS4_EMBEDDED_MODEL.
{ lib, stdenv, python311, native }:

let
  python = python311.withPackages (ps: [
    ps.cffi
    ps.falcon
    ps.httptools
    ps.jinja2
    ps.llguidance
    ps.numpy # of ds4-synth
    ps.prometheus-client
    ps.prompt-toolkit
    ps.tokenizers
    ps.uvicorn
    ps.uvloop
  ]);
in
stdenv.mkDerivation {
  pname = "ds4";
  version = "0.1.0";

  src = lib.cleanSource ../.;

  nativeBuildInputs = [ python ];

  inherit native python;

  # The cffi declarations are made at run time where they were not made at build time: the header lies beside.
  buildPhase = ''
    runHook preBuild
    runHook postBuild
  '';

  doCheck = true;
  checkPhase = ''
    runHook preCheck
    for file in $(find host/ds4 -name '*.py'); do
      $python/bin/python3.11 -c 'import ast, sys; ast.parse(open(sys.argv[1], encoding="utf-8").read(), sys.argv[1])' "$file"
    done
    runHook postCheck
  '';

  installPhase = ''
    runHook preInstall
    mkdir -p $out/lib/ds4/native/bridge $out/bin
    cp -r host $out/lib/ds4/host
    rm -rf $out/lib/ds4/host/tests
    cp parity/ledger.toml $out/lib/ds4/host/ds4/core/components.toml
    cp parity/qualified.toml $out/lib/ds4/host/ds4/core/qualified.toml
    cp -r models $out/lib/ds4/models
    cp native/bridge/ds4_bridge.h $out/lib/ds4/native/bridge/
    ln -s $native/lib/libds4.so $out/lib/ds4/native/libds4.so
    for program in ds4:ds4_cli ds4-server:server ds4-bench:bench ds4-synth:synth; do
      printf '#!%s\nexport PYTHONPATH=%s\nexec %s %s "$@"\n' \
        "${stdenv.shell}" "$out/lib/ds4/host" "$python/bin/python3.11" "$out/lib/ds4/host/entry/''${program#*:}.py" > $out/bin/''${program%%:*}
      chmod +x $out/bin/''${program%%:*}
    done
    runHook postInstall
  '';

  meta = {
    description = "A local inference engine with a Python host";
    license = lib.licenses.mit;
    platforms = lib.platforms.linux;
    mainProgram = "ds4";
  };
}
