# Not run here. In a checkout: nix-build -E 'with import <nixpkgs> { }; callPackage ./contrib/nix/package.nix { }'
{
  lib,
  rustPlatform,
  installShellFiles,
  makeWrapper,
  fuse3,
}:

rustPlatform.buildRustPackage {
  pname = "atrest";
  version = "0.2.0";

  src = lib.cleanSource ../..;
  cargoLock.lockFile = ../../Cargo.lock;

  cargoBuildFlags = [
    "--package"
    "atrest-cli"
  ];
  # The tests drive cryptsetup, QEMU and kernels, as root.
  doCheck = false;

  # The bindings to littlefs are made by libclang.
  nativeBuildInputs = [
    rustPlatform.bindgenHook
    installShellFiles
    makeWrapper
  ];

  postInstall = ''
    $out/bin/atrest man man
    installManPage man/*
    for shell in bash fish zsh; do
      $out/bin/atrest completions $shell > atrest.$shell
    done
    installShellCompletion atrest.{bash,fish,zsh}
    for kind in system user; do
      substitute contrib/systemd/$kind/atrest@.service atrest@.service --subst-var-by bindir $out/bin
      install -D -m 444 atrest@.service $out/lib/systemd/$kind/atrest@.service
    done
    install -D -m 444 -t $out/share/doc/atrest README.md CHANGELOG.md THREAT-MODEL.md FORMATS.md LICENSE-MIT LICENSE-APACHE
    # What unmounts for users. The one that NixOS lets them run comes first.
    wrapProgram $out/bin/atrest --suffix PATH : /run/wrappers/bin:${lib.makeBinPath [ fuse3 ]}
  '';

  meta = {
    description = "Encrypted volumes, folders and flash in user space";
    homepage = "https://github.com/atrest/atrest";
    license = with lib.licenses; [
      mit
      asl20
    ];
    mainProgram = "atrest";
    platforms = lib.platforms.linux;
  };
}
