if(HEADRED_SANITIZE)
  return()  # the plain build opens them
endif()
# Pages written by the tests, opened in a real browser: no console message, and the script reaches its last line.
set(_pages "${CMAKE_CURRENT_BINARY_DIR}/report_pages")
add_test(NAME report.pages COMMAND tests_cpu "--test-case=pages for the browser")
set_tests_properties(report.pages PROPERTIES ENVIRONMENT "HEADRED_REPORT_PAGES=${_pages}" FIXTURES_SETUP report_pages
                                             LABELS report)
set(_open "${CMAKE_CURRENT_SOURCE_DIR}/report/open_in_browser.cmake")
add_test(NAME report.browser COMMAND "${CMAKE_COMMAND}" "-DPAGE=${_pages}" "-DOUT=${_pages}/out" -P "${_open}")
# A page that does not finish must be found out.
add_test(NAME report.browser_rejects
         COMMAND "${CMAKE_COMMAND}" "-DPAGE=${_pages}/broken" "-DOUT=${_pages}/out_broken" -P "${_open}")
set_tests_properties(report.browser report.browser_rejects
                     PROPERTIES FIXTURES_REQUIRED report_pages SKIP_REGULAR_EXPRESSION "skipped: " TIMEOUT 600
                                LABELS report)
set_tests_properties(report.browser_rejects PROPERTIES WILL_FAIL TRUE)
