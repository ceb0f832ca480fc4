// What the tools share from main on: --help, --version, exit codes, one line for each failure.
#pragma once

#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <string_view>

#include <headred/core/error.hpp>
#include <headred/core/version.hpp>

#include "arguments.hpp"
#include "interrupt.hpp"
#include "one_line.hpp"
#include "output_folder.hpp"

namespace examples {

/// run(words) with the command line; `usage` is what --help prints. Exit code 0: done; 1: the input cannot be used or
/// the output not be written; 2: the command line is wrong.
template <class Run>
int tool_main(const std::string& name, std::string_view usage, int count, char** words, const Run& run) {
  const auto fail = [&](int code, const std::string& text) {
    std::cerr << name + ": " + one_line(with_final_names(text)) + "\n";
    return code;
  };
  std::string left = "nothing was written";
  try {
    const arguments all(count, words);
    for (const char* option : {"--runs", "--checkpoint-every"})  // what writes on the way
      if (all.contains(option)) left = std::string("no result was written; what ") + option + " keeps is there";
    if (all.contains("--help") || all.contains("-h")) {
      std::cout << usage;
    } else if (all.contains("--version")) {
      std::cout << "headred " << HEADRED_VERSION_MAJOR << '.' << HEADRED_VERSION_MINOR << '.' << HEADRED_VERSION_PATCH
                << '\n';
    } else {
      catch_interrupts();
      run(all);
    }
    if (!std::cout.flush()) throw headred::error("standard output cannot be written");
    return 0;
  } catch (const usage_error& problem) {
    return fail(2, std::string(problem.what()) + " (see --help)");
  } catch (const interrupted& stop) {
    fail(1, "interrupted, " + left);
    stop.pass_on();
    return 1;
  } catch (const std::bad_alloc&) {
    return fail(1, "the memory does not suffice");
  } catch (const std::exception& problem) {
    return fail(1, problem.what());
  }
}

}  // namespace examples
