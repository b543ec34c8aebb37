{
  description = "DwarfStar: a local inference engine with a Python host";

  # The newest release whose lib/minver.nix (2.3.17) Nix 2.8 of Debian 12 meets.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.05";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      forAllSystems = f: nixpkgs.lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
    in
    {
      packages = forAllSystems (pkgs: rec {
        native = pkgs.callPackage ./nix/native.nix { };
        host = pkgs.callPackage ./nix/package.nix { inherit native; };
        default = host;
      });

      devShells = forAllSystems (pkgs: {
        default = pkgs.mkShell {
          packages = [
            (pkgs.python311.withPackages (ps: [
              ps.anthropic
              ps.cffi
              ps.falcon
              ps.hypothesis
              ps.httptools
              ps.httpx
              ps.jinja2
              ps.llguidance
              ps.mypy
              ps.numpy
              ps.openai
              ps.prometheus-client
              ps.prompt-toolkit
              ps.psutil
              ps.pytest
              ps.pytest-benchmark
              ps.syrupy
              ps.tokenizers
              ps.uvicorn
              ps.uvloop
            ]))
            pkgs.bazel_7
            pkgs.gcc
            pkgs.ruff
          ];
        };
      });

      checks = forAllSystems (pkgs:
        let built = self.packages.${pkgs.stdenv.hostPlatform.system}; in
        { inherit (built) native host; });
    };
}
