#pragma once

#include "orthornn/core/device.hpp"

namespace orthornn {

/// A place on a GPU where the kernels of one owner (a model) report what they find wrong. Kernels of other
/// owners on that GPU report elsewhere. On the CPU, where operations throw at once, it does nothing.
class FaultDomain {
 public:
  /// Takes a place on `device`. Throws DeviceError where all places of the GPU are taken.
  explicit FaultDomain(Device device);
  ~FaultDomain();
  FaultDomain(const FaultDomain&) = delete;
  FaultDomain& operator=(const FaultDomain&) = delete;

  /// While a scope lives, kernels that are started report to the domain, and a call that waits for the device
  /// throws what the domain has and nothing else. Scopes may nest.
  class Scope {
   public:
    /// Makes `domain` the one that kernels report to, until the end of the scope.
    explicit Scope(const FaultDomain& domain);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Device device_;
    int before_ = 0;
  };

 private:
  Device device_;
  int number_ = 0;
};

}  // namespace orthornn
