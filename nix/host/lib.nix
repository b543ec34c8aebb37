rec {
  genAttrs = names: f: builtins.listToAttrs (map (name: { inherit name; value = f name; }) names);
  optional = cond: x: if cond then [ x ] else [ ];
  optionals = cond: xs: if cond then xs else [ ];
  optionalString = cond: s: if cond then s else "";
  optionalAttrs = cond: as: if cond then as else { };
  hasSuffix = suffix: s:
    let n = builtins.stringLength s; m = builtins.stringLength suffix; in
    n >= m && builtins.substring (n - m) m s == suffix;
  cleanSourceFilter = name: type:
    let base = baseNameOf (toString name); in
    ! (base == ".git" || hasSuffix "~" base || hasSuffix ".o" base || (type == "symlink" && builtins.match "(result|bazel-).*" base != null));
  cleanSource = src: builtins.path { path = src; name = "source"; filter = cleanSourceFilter; };
  makeBinPath = pkgs: builtins.concatStringsSep ":" (map (p: "${p}/bin") pkgs);
  concatMapStrings = f: xs: builtins.concatStringsSep "" (map f xs);
  replaceStrings = builtins.replaceStrings;
  # sep holds no character that is special in a regular expression.
  splitString = sep: s: builtins.filter builtins.isString (builtins.split sep s);
  escapeShellArg = arg: "'${builtins.replaceStrings [ "'" ] [ "'\\''" ] (toString arg)}'";
  escapeShellArgs = args: builtins.concatStringsSep " " (map escapeShellArg args);
  licenses = { mit = { spdxId = "MIT"; }; asl20 = { spdxId = "Apache-2.0"; }; };
  platforms = { linux = [ "x86_64-linux" "aarch64-linux" ]; };
}
