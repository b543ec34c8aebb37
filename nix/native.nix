{ lib, stdenv }:

let
  # The list that Bazel loads too: a JSON literal behind "NATIVE =".
  text = builtins.readFile ../native/sources.bzl;
  native = builtins.fromJSON (builtins.elemAt (lib.splitString "NATIVE =" text) 1);

  cpu = stdenv.hostPlatform.parsed.cpu.name;
  groups = builtins.filter (group: group.cpu == "" || group.cpu == cpu) native.groups;
  compile = group: lib.concatMapStrings
    (src: ''
      compile native/${src} ${lib.replaceStrings [ "/" ] [ "_" ] src}.${group.name}.o ${lib.escapeShellArgs group.copts}
    '')
    group.srcs;
in
stdenv.mkDerivation {
  pname = "ds4-native";
  version = "0.1.0";

  src = lib.cleanSource ../.;

  copts = toString native.copts;
  linkopts = toString native.linkopts;

  buildPhase = ''
    runHook preBuild
    mkdir -p objects
    cores=''${NIX_BUILD_CORES:-0}
    [ "$cores" -gt 0 ] || cores=$(nproc)
    compile() {
      echo "$1"
      while [ "$(jobs -rp | wc -l)" -ge "$cores" ]; do wait -n; done
      $CC $copts "''${@:3}" -I. -c "$1" -o "objects/$2" &
    }
    ${lib.concatMapStrings compile groups}
    for job in $(jobs -p); do wait "$job"; done
    $CC -shared -o libds4.so objects/*.o $linkopts
    runHook postBuild
  '';

  # Each test program, linked with the engine's own objects. Those that want a model say that they are skipped.
  doCheck = true;
  checkPhase = ''
    runHook preCheck
    for test in native/tests/*_test.c; do
      echo "$test"
      $CC $copts -I. "$test" objects/*.o $linkopts -o program
      ./program
    done
    runHook postCheck
  '';

  installPhase = ''
    runHook preInstall
    install -Dm755 libds4.so $out/lib/libds4.so
    install -Dm644 native/bridge/ds4_bridge.h $out/include/native/bridge/ds4_bridge.h
    runHook postInstall
  '';

  meta = {
    description = "The numerical engine of ds4";
    license = lib.licenses.mit;
    platforms = lib.platforms.linux;
  };
}
