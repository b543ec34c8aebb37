{ system }:

let
  lib = import ./lib.nix;

  # A package of the machine's own: nothing is copied, only its name is known.
  host = name: { inherit name; type = "host"; outPath = "/usr"; };

  # Only strings, paths and the like reach a builder's environment.
  scalar = v: builtins.isString v || builtins.isBool v || builtins.isInt v || builtins.isPath v || (builtins.isAttrs v && v ? outPath);
  envOf = attrs: builtins.listToAttrs (builtins.filter (x: scalar x.value)
    (map (name: { inherit name; value = attrs.${name}; }) (builtins.attrNames attrs)));

  mkDerivation = args:
    let
      attrs = if builtins.isFunction args then args (attrs // { finalPackage = drv; }) else args;
      drv = derivation (envOf (removeAttrs attrs [ "meta" "passthru" "nativeBuildInputs" "buildInputs" "packages" ]) // {
        name = attrs.name or "${attrs.pname}-${attrs.version}";
        inherit system;
        builder = "/bin/bash";
        args = [ "-e" ./builder.sh ];
        PATH = "/usr/local/bin:/usr/bin:/bin";
        outputs = [ "out" ]; # nix develop reads it
        CC = "gcc";
        CXX = "g++";
      }) // {
        meta = attrs.meta or { };
        passthru = attrs.passthru or { };
        overrideAttrs = f: mkDerivation (attrs // f attrs);
      };
    in
    drv;

  pkgs = {
    inherit lib system;
    stdenv = {
      inherit mkDerivation;
      cc = host "gcc";
      shell = "/bin/bash";
      hostPlatform = {
        inherit system;
        isx86_64 = system == "x86_64-linux";
        isAarch64 = system == "aarch64-linux";
        isLinux = true;
        parsed.cpu.name = builtins.head (builtins.match "([a-z0-9_]+)-.*" system);
      };
    };
    stdenvNoCC = pkgs.stdenv;
    # The names are forced, so that a package that is not there fails the check.
    mkShell = args: mkDerivation ({
      name = "nix-shell";
      dontUnpack = true;
      installPhase = "touch $out";
      shellPackages = builtins.concatStringsSep " " (map (p: p.name) (args.packages or [ ]));
    } // removeAttrs args [ "packages" "inputsFrom" ]);
    runCommand = name: env: script: mkDerivation (env // { inherit name; dontUnpack = true; installPhase = script; });
    callPackage = f: over:
      let fn = if builtins.isFunction f then f else import f; in
      fn (builtins.intersectAttrs (builtins.functionArgs fn) pkgs // over);
    gcc = host "gcc";
    bazel_7 = host "bazel";
    ruff = host "ruff";
    python311 = host "python3.11" // {
      # A typing mistake in a package's name must fail the check.
      withPackages = f: host "python3-env:${builtins.concatStringsSep "," (map (p: p.name) (f (lib.genAttrs [
        "anthropic" "cffi" "falcon" "hypothesis" "httptools" "httpx" "jinja2" "llguidance" "mypy" "numpy" "openai" "prometheus-client" "prompt-toolkit"
        "psutil" "pytest" "pytest-benchmark" "syrupy" "tokenizers" "uvicorn" "uvloop"
      ] host)))}";
    };
  };
in
pkgs
