# Not run here. With a tap: brew install TAP/atrest
class Atrest < Formula
  desc "Encrypted volumes, folders and flash in user space"
  homepage "https://github.com/atrest/atrest"
  url "https://github.com/atrest/atrest/archive/refs/tags/v0.2.0.tar.gz"
  # `brew fetch` prints the sum of the release, which belongs here.
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license any_of: ["MIT", "Apache-2.0"]
  head "https://github.com/atrest/atrest.git", branch: "main"

  # The bindings to littlefs are made by libclang.
  depends_on "llvm" => :build
  depends_on "rust" => :build
  # Locked memory, io_uring and FUSE are Linux's.
  depends_on :linux

  def install
    ENV["LIBCLANG_PATH"] = Formula["llvm"].opt_lib
    system "cargo", "install", *std_cargo_args(path: "crates/cli")
    system bin/"atrest", "man", "man"
    man1.install Dir["man/*.1"]
    man5.install Dir["man/*.5"]
    generate_completions_from_executable(bin/"atrest", "completions")
    doc.install "README.md", "CHANGELOG.md", "THREAT-MODEL.md", "FORMATS.md", "docs"
  end

  test do
    (testpath/"key").write "correct horse"
    (testpath/"key").chmod 0600
    options = %w[--size 24M --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file key]
    system bin/"atrest", "format", *options, "volume.img"
    system bin/"atrest", "key", "test", "--key-file", "key", "volume.img"
    assert_match "luks2", shell_output("#{bin}/atrest info volume.img").downcase
  end
end
