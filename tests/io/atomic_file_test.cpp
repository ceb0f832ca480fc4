#include <headred/core/atomic_file.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <stdexcept>
#include <string>

#include "io_support.hpp"

#if __has_include(<sys/resource.h>)
#include <sys/resource.h>

#include <csignal>
#endif

using headred_test::file_error_text;
using headred_test::read_text;
using headred_test::temporary_folder;
using headred_test::write_text;

TEST_SUITE("io") {
  TEST_CASE("atomic_file: nothing under the name before commit, all of it after") {
    const temporary_folder folder;
    const auto path = folder / "out.txt";
    {
      headred::atomic_file file(path);
      file.write("one ");
      CHECK_FALSE(std::filesystem::exists(path));
      file.write("two");
      file.commit();
    }
    CHECK(read_text(path) == "one two");
    CHECK(folder.count() == 1);
    headred::write_file_atomically(path, "short");
    CHECK(read_text(path) == "short");
    headred::write_file_atomically(path, [](headred::atomic_file& file) { file.write("called"); });
    CHECK(read_text(path) == "called");
    headred::write_file_atomically(path, "");
    CHECK(read_text(path).empty());
    CHECK(folder.count() == 1);
  }

  TEST_CASE("atomic_file: an exception on the way leaves the old file and nothing else") {
    const temporary_folder folder;
    write_text(folder / "out.txt", "old");
    CHECK_THROWS_AS(headred::write_file_atomically(folder / "out.txt",
                                                   [](headred::atomic_file& file) {
                                                     file.write("half of the ne");
                                                     throw std::runtime_error("stop");
                                                   }),
                    std::runtime_error);
    CHECK(read_text(folder / "out.txt") == "old");
    CHECK(folder.count() == 1);
    { headred::atomic_file never_committed(folder / "other.txt"); }
    CHECK(folder.count() == 1);
  }

  TEST_CASE("atomic_file: a second commit and a write after it are refused") {
    const temporary_folder folder;
    headred::atomic_file file(folder / "out.txt");
    file.commit();
    CHECK(file_error_text([&] { file.write("x"); }).find("was committed") != std::string::npos);
    CHECK(file_error_text([&] { file.commit(); }).find("was committed") != std::string::npos);
    CHECK(read_text(folder / "out.txt").empty());
  }

  TEST_CASE("atomic_file: names the file and the reason when it cannot be written") {
    const temporary_folder folder;
    write_text(folder / "file", "x");
    const auto text = [](const std::filesystem::path& path) {
      return file_error_text([&] { headred::write_file_atomically(path, "content"); });
    };
    CHECK(text(folder / "missing" / "a.txt") ==
          (folder / "missing" / "a.txt").string() + ": cannot be created: No such file or directory");
    CHECK(text(folder / "file" / "a.txt") ==
          (folder / "file" / "a.txt").string() + ": cannot be created: Not a directory");
    CHECK(text(folder.path()) == folder.path().string() + ": cannot be written: it is a directory");
    CHECK(text("").find("the path names no file") != std::string::npos);
    CHECK(text(folder / "new" / "").find("the path names no file") != std::string::npos);
    CHECK(text(folder / std::string(300, 'n')).find("cannot be renamed from its temporary file: File name too long") !=
          std::string::npos);
    CHECK(folder.count() == 1);
    CHECK(read_text(folder / "file") == "x");
  }

  TEST_CASE("atomic_file: a name as long as the system allows") {
    const temporary_folder folder;
    headred::write_file_atomically(folder / std::string(255, 'n'), "x");
    CHECK(read_text(folder / std::string(255, 'n')) == "x");
    CHECK(folder.count() == 1);
  }

  TEST_CASE("atomic_file: keeps permissions, follows a symbolic link") {
    const temporary_folder folder;
    const auto target = folder / "target";
    write_text(target, "old");
    using std::filesystem::perms;
    std::filesystem::permissions(target, perms::owner_read | perms::owner_write);
    std::filesystem::create_symlink("target", folder / "link");
    headred::write_file_atomically(folder / "link", "new");
    CHECK(std::filesystem::is_symlink(folder / "link"));
    CHECK(read_text(target) == "new");
    CHECK(std::filesystem::status(target).permissions() == (perms::owner_read | perms::owner_write));
    std::filesystem::create_symlink("nowhere", folder / "dangling");
    headred::write_file_atomically(folder / "dangling", "made");
    CHECK(read_text(folder / "nowhere") == "made");
    std::filesystem::create_symlink("loop", folder / "loop");
    CHECK(file_error_text([&] { headred::write_file_atomically(folder / "loop", "x"); }) ==
          (folder / "loop").string() + ": cannot be written: Too many levels of symbolic links");
    CHECK(folder.count() == 5);
  }

  TEST_CASE("atomic_file: a full device is an error, and stays a device") {
    if (!std::filesystem::is_character_file("/dev/full")) return;
    const auto text = [](std::size_t size) {
      return file_error_text([&] { headred::write_file_atomically("/dev/full", std::string(size, 'x')); });
    };
    CHECK(text(10) == "/dev/full: cannot be written: No space left on device");
    CHECK(text(10'000'000) == "/dev/full: cannot be written: No space left on device");
    CHECK(std::filesystem::is_character_file("/dev/full"));
  }

#if __has_include(<sys/resource.h>)
  TEST_CASE("atomic_file: a disk that fills up in the middle leaves the old file and nothing else") {
    const temporary_folder folder;
    write_text(folder / "out.txt", "old");
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit small = before;
    small.rlim_cur = 100'000;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    const std::string text =
        file_error_text([&] { headred::write_file_atomically(folder / "out.txt", std::string(1'000'000, 'x')); });
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, old_handler);
    CHECK(text == (folder / "out.txt").string() + ": cannot be written: File too large");
    CHECK(read_text(folder / "out.txt") == "old");
    CHECK(folder.count() == 1);
  }
#endif
}
