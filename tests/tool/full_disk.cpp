// head_redundancy on a file system that is full: needs the right to mount one.
#include <doctest/doctest.h>

#include <string>

#include "environment.hpp"
#include "tool/run_tool.hpp"

using namespace headred_test;

TEST_SUITE("tool_full_disk") {
  TEST_CASE("a full file system: nothing half written, the earlier result intact") {
    const temporary_folder folder;
    fs::create_directory(folder / "disk");
    const std::string disk = (folder / "disk").string();
    if (run_shell("mount -t tmpfs -o size=64k tmpfs " + shell_word(disk)).code != 0)
      return skip("no right to mount a small file system");
    struct unmount {
      std::string disk;
      ~unmount() { run_shell("umount " + shell_word(disk)); }
    } const later{disk};
    write_text(folder / "disk" / "summary.json", "earlier");
    const auto before = content(disk);
    for (const std::string& out : {disk, disk + "/new"}) {
      const outcome o = run_tool({"--out", out});
      CAPTURE(o.err);
      CHECK(o.code == 1);
      CHECK(o.out == "");
      CHECK(o.err.find("No space left on device") != std::string::npos);
      CHECK(o.err.find("unfinished") == std::string::npos);  // files are called what the user calls them
      CHECK(content(disk) == before);
    }
  }
}
