// For test programs that use UCX, under AddressSanitizer: three leaks of UCX 1.13 when a link is
// reset at an awkward moment. Whole stacks, so that nothing else of UCX's or ours hides behind
// them.
//   ucp_ep_create_base    56 bytes for an endpoint whose worker is destroyed while a request of it
//   is
//                         not complete
//   ucp_wireup_ep_create  760 bytes for an endpoint that fails while it is being wired up
//   uct_mm_ep_t_new       the tables of an endpoint whose creation fails since the peer's queue is
//                         gone
extern "C" {

__attribute__((visibility("default"))) const char* __asan_default_options() {
  return "fast_unwind_on_malloc=0";
}

__attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
  return "leak:ucp_ep_create_base\nleak:ucp_wireup_ep_create\nleak:uct_mm_ep_t_new\n";
}
}
