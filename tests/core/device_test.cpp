#include "orthornn/core/device.hpp"

#include <initializer_list>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"
#include "support/error_message.hpp"
#include "support/gpu.hpp"

using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("a device has a name that parse reads", "[device]") {
  CHECK(Device::parse("cpu") == Device::cpu());
  CHECK(Device::parse("auto") == Device::best());
  for (const char* wrong : {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda: 1", "cuda1",
                            "cuda:99999999999", "cpu:0"}) {
    CAPTURE(wrong);
    CHECK_THAT(error_message<ValueError>([&] { Device::parse(wrong); }),
               contains("unknown device '" + std::string(wrong) + "'") && contains("cuda:INDEX"));
  }
}

TEST_CASE("a GPU of an index that is not there is refused by its name", "[device]") {
  CHECK_THAT(error_message<DeviceError>([] { Device::parse("cuda:4096"); }),
             contains("device cuda:4096 was asked for"));
}

TEST_CASE("a GPU's index is in its name", "[cuda]") {
  const auto device = gpu();
  if (!device) return;
  CHECK(Device::parse("cuda") == *device);
  CHECK(Device::parse("cuda:0") == *device);
  CHECK(to_string(*device) == "cuda:0");
  CHECK_THAT(error_message<DeviceError>([] { Device::cuda(4096); }),
             contains("there is no GPU 4096") && contains("counted from 0"));
}
