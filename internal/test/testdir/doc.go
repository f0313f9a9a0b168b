// Package testdir gives tests directories for state and workspaces that take
// everything with them: the wardens and commands that live in a directory, the
// containers that mount it or keep their state in it, and its files.
//
// A directory goes with its test, also with one that failed. A test process
// that was killed cannot clean up; the next one that uses this package, with the
// same TMPDIR, does it instead. The directories of processes that live are left
// alone: each holds a lock on its own, which ends with it however it ends.
//
// It is for tests alone, and imports nothing of this repository, so that the
// tests of any package can use it. Elsewhere than on Linux a directory is that of
// testing.TB.TempDir.
package testdir
