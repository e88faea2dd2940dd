SUMMARY = "Unlocks encrypted volumes at boot: one static program"
HOMEPAGE = "https://github.com/atrest/atrest"
LICENSE = "MIT | Apache-2.0"
LIC_FILES_CHKSUM = "file://${COMMON_LICENSE_DIR}/MIT;md5=0835ade698e0bcf8506ecda2f7b4f302"

# The program as `make static` builds it for the machine (target/TARGET/static in the source tree), beside this recipe in files/, and your crypttab.
SRC_URI = "file://atrest-init file://crypttab"
S = "${WORKDIR}"

do_install() {
    install -D -m 0755 ${WORKDIR}/atrest-init ${D}${sbindir}/atrest-init
    install -D -m 0600 ${WORKDIR}/crypttab ${D}${sysconfdir}/crypttab
}

# It is static and stripped already.
INSANE_SKIP:${PN} += "already-stripped ldflags"
RRECOMMENDS:${PN} += "kernel-module-dm-crypt kernel-module-xts"
FILES:${PN} = "${sbindir}/atrest-init ${sysconfdir}/crypttab"
