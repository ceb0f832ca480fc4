#include <headred/io/mapped_file.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "io_support.hpp"

#if __has_include(<sys/stat.h>)
#include <sys/stat.h>
#endif

using headred_test::bytes_of;
using headred_test::file_error_text;
using headred_test::temporary_folder;
using headred_test::write_text;

TEST_SUITE("io") {
  TEST_CASE("mapped_file: the bytes of a file, also after moves") {
    const temporary_folder folder;
    const std::string text = std::string("a\0b", 3) + std::string(100'000, 'x');
    write_text(folder / "file", text);
    headred::mapped_file file(folder / "file");
    CHECK(std::ranges::equal(file.bytes(), bytes_of(text)));
    CHECK(file.name() == (folder / "file").string());
    const std::byte* const where = file.bytes().data();
    headred::mapped_file moved(std::move(file));
    headred::mapped_file assigned;
    assigned = std::move(moved);
    CHECK(assigned.bytes().data() == where);
    CHECK(std::ranges::equal(assigned.bytes(), bytes_of(text)));
    assigned = headred::mapped_file();
    CHECK(assigned.size() == 0);
  }

  TEST_CASE("mapped_file: an empty file has no bytes") {
    const temporary_folder folder;
    write_text(folder / "empty", "");
    CHECK(headred::mapped_file(folder / "empty").size() == 0);
  }

  TEST_CASE("mapped_file: refuses what is not a file, with the reason") {
    const temporary_folder folder;
    const auto text = [](const std::filesystem::path& path) {
      return file_error_text([&] { headred::mapped_file file(path); });
    };
    CHECK(text(folder / "missing") == (folder / "missing").string() + ": does not exist");
    CHECK(text(folder.path()) == folder.path().string() + ": is a directory, expected a file");
    write_text(folder / "file", "x");
    CHECK(text(folder / "file" / "below").find("does not exist") != std::string::npos);
    if (std::filesystem::exists("/dev/zero"))
      CHECK(text("/dev/zero") == "/dev/zero: is neither a regular file nor a pipe");
  }

#if __has_include(<sys/stat.h>)
  TEST_CASE("mapped_file: a pipe is read to its end") {
    const temporary_folder folder;
    const auto pipe = folder / "pipe";
    REQUIRE(::mkfifo(pipe.string().c_str(), 0600) == 0);
    std::string text;
    for (int i = 0; i < 200'000; ++i) text += static_cast<char>(i % 251);
    std::thread writer([&] { write_text(pipe, text); });
    const headred::mapped_file file(pipe);
    writer.join();
    CHECK(std::ranges::equal(file.bytes(), bytes_of(text)));
  }
#endif
}
