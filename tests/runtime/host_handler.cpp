// The XLA handler for programs that run on the host: what it launches goes to the stand-in driver.

#include <mutex>

#include "xla_handler.cpp"

static std::mutex one_at_a_time;  // the stand-in counts launches, and XLA may have several devices on the host

XLA_FFI_DEFINE_HANDLER_SYMBOL(on_host,
                              [](std::string_view plan, float alpha, ffi::RemainingArgs operands,
                                 ffi::RemainingRets results) {
                                  const std::lock_guard lock(one_at_a_time);
                                  return launch(reinterpret_cast<void*>(0x5EA), 0, plan, alpha, operands, results);
                              },
                              ffi::Ffi::Bind()
                                  .Attr<std::string_view>("plan")
                                  .Attr<float>("alpha")
                                  .RemainingArgs()
                                  .RemainingRets());
