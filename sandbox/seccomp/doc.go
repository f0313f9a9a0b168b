// Package seccomp is the seccomp profile of sandboxes: which system calls can be
// made in one. It is Docker's default for a container without capabilities,
// less what nothing that agents run needs (see [Differences]).
//
// The profile is in the form of the OCI runtime specification, which is also
// one that Docker's security option seccomp=JSON takes. It is made by a test
// from Docker's own and the table of differences, and embedded: it changes when a
// person has looked at the difference, and not with a library.
package seccomp
