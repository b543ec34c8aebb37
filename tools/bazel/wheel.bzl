"""py_wheel: a package's files, its native library and its data in an ordinary wheel."""

def _impl(ctx):
    tag = "py3-none-" + ctx.attr.platform
    out = ctx.actions.declare_file("%s-%s-%s.whl" % (ctx.attr.distribution, ctx.attr.version, tag))
    files = {}
    for file in ctx.files.srcs:
        if not file.short_path.startswith(ctx.attr.strip):
            fail("%s does not lie under %s" % (file.short_path, ctx.attr.strip))
        files[file.short_path[len(ctx.attr.strip):]] = file.path
    for target, folder in ctx.attr.data.items():
        for file in target.files.to_list():
            files[folder + "/" + file.basename] = file.path
    licenses = {}
    for target, name in ctx.attr.licenses.items():
        for file in target.files.to_list():
            licenses[name] = file.path
    plan = ctx.actions.declare_file(ctx.label.name + ".plan.json")
    ctx.actions.write(plan, json.encode_indent({
        "files": files,
        "license": ctx.attr.license,
        "licenses": licenses,
        "name": ctx.attr.distribution,
        "requirements": ctx.file.requirements.path,
        "requires_python": ctx.attr.requires_python,
        "scripts": ctx.attr.scripts,
        "summary": ctx.attr.summary,
        "tag": tag,
        "version": ctx.attr.version,
    }))
    ctx.actions.run(
        executable = ctx.executable._builder,
        arguments = [plan.path, out.path],
        inputs = ctx.files.srcs + ctx.files.data + ctx.files.licenses + [plan, ctx.file.requirements],
        outputs = [out],
        mnemonic = "PyWheel",
        progress_message = "Writing %s" % out.basename,
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))]

py_wheel = rule(
    implementation = _impl,
    attrs = {
        "data": attr.label_keyed_string_dict(allow_files = True, doc = "file: folder inside the wheel"),
        "distribution": attr.string(mandatory = True),
        "license": attr.string(mandatory = True, doc = "SPDX expression"),
        "licenses": attr.label_keyed_string_dict(allow_files = True, doc = "licence text: its name inside the wheel"),
        "platform": attr.string(mandatory = True, doc = "platform part of the wheel's tag"),
        "requirements": attr.label(mandatory = True, allow_single_file = True),
        "requires_python": attr.string(mandatory = True),
        "scripts": attr.string_dict(doc = "command: module:function"),
        "srcs": attr.label_list(allow_files = [".css", ".html", ".js", ".py", ".toml", ".typed"]),
        "strip": attr.string(doc = "leading part of a source's path that the wheel leaves out"),
        "summary": attr.string(mandatory = True),
        "version": attr.string(mandatory = True),
        "_builder": attr.label(default = "//tools/wheel:build_wheel", executable = True, cfg = "exec"),
    },
)
