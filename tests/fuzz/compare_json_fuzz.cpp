// A compare.json that report draws.

#include <nlohmann/json.hpp>

#include "fuzz/fuzz_target.hpp"
#include "pages/comparison_page.hpp"

using namespace orthornn;
using namespace orthornn::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static InputFile file;
  file.write(Bytes(data, size));
  std::string page;
  accepted(file.path(), [&] { page = program::page_of_comparison(file.path()); });
  nlohmann::json(page).dump();  // throws unless the page is UTF-8
  return 0;
}
