// For test programs that use UCX over TCP, under AddressSanitizer.
//
// UCX 1.13 forgets a record of 56 bytes for an endpoint whose worker is destroyed while a request
// of it is not complete: what happens to a link that is reset. Whole stacks, so that nothing else
// of UCX's or ours hides behind it.
extern "C" {

__attribute__((visibility("default"))) const char* __asan_default_options() {
  return "fast_unwind_on_malloc=0";
}

__attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:ucp_ep_create_base\n";
}
}
