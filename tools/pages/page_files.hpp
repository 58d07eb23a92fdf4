#pragma once

namespace orthornn::program {

/// The style sheet and the script of every page: page.css and page.js, which CMake puts into the program.
extern const char* const page_style;
extern const char* const page_script;

}  // namespace orthornn::program
