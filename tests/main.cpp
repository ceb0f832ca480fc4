// main of tests_cpu: doctest, plus three rules. The seed is printed; a selection without a single test case fails; a run
// in which something was skipped says so by exit code 77.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "environment.hpp"

namespace {

unsigned cases_run = 0;
unsigned cases_skipped = 0;

struct count_cases : doctest::IReporter {
  explicit count_cases(doctest::ContextOptions const&) {}
  void report_query(doctest::QueryData const&) override {}
  void test_run_start() override {}
  void test_run_end(doctest::TestRunStats const& stats) override { cases_run = stats.numTestCasesPassingFilters; }
  void test_case_start(doctest::TestCaseData const&) override {}
  void test_case_reenter(doctest::TestCaseData const&) override {}
  void test_case_end(doctest::CurrentTestCaseStats const&) override {}
  void test_case_exception(doctest::TestCaseException const&) override {}
  void subcase_start(doctest::SubcaseSignature const&) override {}
  void subcase_end() override {}
  void log_assert(doctest::AssertData const&) override {}
  void log_message(doctest::MessageData const&) override {}
  void test_case_skipped(doctest::TestCaseData const&) override {}
};

REGISTER_LISTENER("count_cases", 1, count_cases);

}  // namespace

namespace headred_test {

std::uint64_t seed() {
  char const* text = std::getenv("HEADRED_TEST_SEED");
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : 20211101;
}

std::filesystem::path shared_dir() {
  char const* text = std::getenv("HEADRED_SHARED_DIR");
  std::filesystem::path const dir = text != nullptr ? text : HEADRED_SHARED_DIR;
  return std::filesystem::is_directory(dir) ? dir : std::filesystem::path{};
}

void skip(std::string const& why) {
  ++cases_skipped;
  leave_out(why);
}

void leave_out(std::string const& why) { std::cout << "skipped: " << why << std::endl; }

}  // namespace headred_test

int main(int argc, char** argv) {
  std::cout << "seed: " << headred_test::seed() << " (HEADRED_TEST_SEED)" << std::endl;
  doctest::Context context(argc, argv);
  int const failed = context.run();
  if (failed != 0 || context.shouldExit()) return failed;
  if (cases_run == 0) {
    std::cerr << "no test case was selected\n";
    return 2;
  }
  if (cases_skipped == 0) return 0;
  std::cout << cases_skipped << " skipped\n";
  return 77;
}
