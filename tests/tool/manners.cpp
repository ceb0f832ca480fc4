// How head_redundancy behaves towards its surroundings: output folder, terminal, signals, other runs.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tool/run_tool.hpp"

using namespace headred_test;

namespace {

const std::vector<std::string> cosine = {"cosine"};

/// A file with enough work for about a second.
void save_large(const fs::path& path) {
  hr::cpu be{{.threads = 1}};
  const auto maps = random_maps(be, {8, 8, 48, 48}, 1);
  std::vector<hr::safetensors_entry> entries;
  for (int i = 0; i < 60; ++i) entries.emplace_back(std::to_string(i), maps);
  hr::save_safetensors(path, entries);
}

std::string line(const temporary_folder& folder, const std::string& out, const std::string& more = "") {
  return command({"--attention", (folder / "a.safetensors").string(), "--out", (folder / out).string()}) + " " + more;
}

}  // namespace

TEST_SUITE("tool") {
  TEST_CASE("an earlier result is replaced whole, other files stay") {
    const temporary_folder folder;
    const std::string out = (folder / "out").string();
    REQUIRE(run_tool({"--out", out}).code == 0);
    read_result(out);
    write_text(folder / "out" / "notes.txt", "mine");
    REQUIRE(run_tool({"--out", out, "--distance", "cosine"}).code == 0);
    CHECK(read_text(folder / "out" / "notes.txt") == "mine");
    fs::remove(folder / "out" / "notes.txt");
    CHECK(read_result(out, cosine).summary["plan_from"] == "cosine");
  }

  TEST_CASE("places that cannot be written") {
    const temporary_folder folder;
    write_text(folder / "file", "x");
    fs::create_symlink("nowhere", folder / "dangling");
    fs::create_directories(folder / "taken" / "plan.json");
    write_text(folder / "taken" / "summary.json", "earlier");
    const auto before = content(folder.path());
    const std::vector<std::string> places = {"file",
                                             "file/below",
                                             "file/very/deep",
                                             "dangling",
                                             "taken",
                                             std::string(300, 'x'),
                                             "new/" + std::string(300, 'x')};
    for (const std::string& place : places) {
      const outcome o = run_tool({"--distance", "cosine", "--out", (folder / place).string()});
      CAPTURE(place);
      CAPTURE(o.err);
      CHECK(o.code == 1);
      CHECK(o.out == "");
      CHECK(o.err.find("cannot be written: ") != std::string::npos);
      CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
      CHECK(content(folder.path()) == before);
      CHECK(fs::is_symlink(folder / "dangling"));
    }
    CHECK(run_tool({"--out", "/proc/x"}).code == 1);
  }

  TEST_CASE("a full disk, staged by a limit on the size of files") {
    const temporary_folder folder;
    const std::string out = (folder / "out").string();
    REQUIRE(run_tool({"--distance", "cosine", "--out", out}).code == 0);
    const auto before = content(folder.path());
    for (const char* where : {"out", "new"}) {
      const outcome o = run_shell("trap '' XFSZ; ulimit -f 20; " + command({"--out", (folder / where).string()}));
      CAPTURE(o.err);
      CHECK(o.code == 1);
      CHECK(o.out == "");
      CHECK(o.err.find("cannot be written: File too large") != std::string::npos);
      CHECK(content(folder.path()) == before);
    }
  }

  TEST_CASE("standard output that cannot be written is an error") {
    if (!fs::exists("/dev/full")) return;
    const temporary_folder folder;
    const std::string run = command({"--distance", "cosine", "--out", (folder / "out").string()});
    const outcome o = run_shell(run + " >/dev/full");
    CHECK(o.code == 1);
    CHECK(o.err == "head_redundancy: standard output cannot be written\n");
    read_result(folder / "out", cosine);
    CHECK(run_shell(command({"--help"}) + " >/dev/full").code == 1);
    // a reader that goes away early does not hurt the result
    CHECK(run_shell(command({"--distance", "cosine", "--out", (folder / "piped").string()}) + " | true").code == 0);
    read_result(folder / "piped", cosine);
  }

  TEST_CASE("Ctrl-C leaves nothing and ends the program as the signal does") {
    const temporary_folder folder;
    save_large(folder / "a.safetensors");
    REQUIRE(run_tool({"--distance", "cosine", "--out", (folder / "out").string()}).code == 0);
    const auto before = content(folder.path());
    for (const char* signal : {"INT", "TERM", "HUP"}) {
      CAPTURE(signal);
      // a background job of a shell has SIGINT ignored, so timeout sends the signals; without --foreground it sends them
      // to its whole group too, and a second signal ends the program at once
      const outcome o =
          run_shell("timeout --foreground -s " + std::string(signal) + " --preserve-status 0.3 " + line(folder, "out"));
      CHECK(o.code > 128);
      CHECK(o.out == "");
      CHECK(o.err == "head_redundancy: interrupted, nothing was written\n");
      CHECK(content(folder.path()) == before);
    }
    CHECK(run_shell("timeout --foreground -s INT --preserve-status 0.3 " + line(folder, "new")).code > 128);
    CHECK(content(folder.path()) == before);
  }

  TEST_CASE("a killed run hurts nothing, and the next one cleans up behind it") {
    const temporary_folder folder;
    save_large(folder / "a.safetensors");
    REQUIRE(run_tool({"--distance", "cosine", "--out", (folder / "out").string()}).code == 0);
    const auto earlier = content(folder / "out");
    CHECK(run_shell("timeout --foreground -s KILL 0.3 " + line(folder, "out")).code == 137);
    auto killed = content(folder / "out");
    CHECK(killed.size() > earlier.size());
    std::erase_if(killed, [](const auto& entry) { return entry.first.starts_with(".unfinished-"); });
    CHECK(killed == earlier);
    REQUIRE(run_shell(line(folder, "out", "--distance cosine")).code == 0);
    read_result(folder / "out", cosine);
  }

  TEST_CASE("runs into one folder at the same time: one of them wins, whole") {
    hr::cpu be{{.threads = 1}};
    const temporary_folder folder;
    for (const char* name : {"0", "1", "2", "3"})
      hr::save_npy(folder / (std::string(name) + ".npy"), random_maps(be, {2, 3 + (name[0] - '0'), 6, 6}, 1));
    std::string all;
    for (const char* name : {"0", "1", "2", "3"})
      all += command({"--attention", (folder / (std::string(name) + ".npy")).string(), "--out",
                      (folder / "new" / "out").string()}) +
             " & ";
    for (int round = 0; round < 5; ++round) {
      const outcome o = run_shell(all + " wait");
      CHECK(o.err == "");
      const result r = read_result(folder / "new" / "out");  // matrices, plan and summary of one size
      CHECK(r.heads % 2 == 0);
    }
  }

  TEST_CASE("the progress bar is for terminals only") {
    const temporary_folder folder;
    save_large(folder / "a.safetensors");
    CHECK(run_shell(line(folder, "out", "--distance cosine")).err == "");

    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
      MESSAGE("no pseudo-terminal here");
      return;
    }
    const std::string terminal = ptsname(master);
    const int slave = open(terminal.c_str(), O_RDWR | O_NOCTTY);  // keeps the terminal open until all is read
    REQUIRE(slave >= 0);
    const std::string run = line(folder, "out", "--distance procrustes");
    std::string shown;
    std::thread reader([&] {
      char bytes[256];
      while (shown.find("END") == std::string::npos) {
        const auto count = read(master, bytes, sizeof bytes);
        if (count <= 0) break;
        shown.append(bytes, static_cast<std::size_t>(count));
      }
    });
    const outcome o = run_shell(run, "2>" + shell_word(terminal));
    CHECK(write(slave, "END", 3) == 3);
    reader.join();
    close(slave);
    close(master);
    CHECK(o.code == 0);
    CHECK(shown.starts_with("\r\033[Ksentences [..............................] 0/60"));
    const std::regex bar(R"(sentences \[#*\.*\] [0-9]+/60, [0-9.e+]+/s, [0-9]+ s left)");
    CHECK(std::distance(std::sregex_iterator(shown.begin(), shown.end(), bar), std::sregex_iterator()) >= 2);
    CHECK(shown.find('\n') == std::string::npos);
    CHECK(shown.ends_with("\r\033[KEND"));  // it cleans up behind itself
  }
}
