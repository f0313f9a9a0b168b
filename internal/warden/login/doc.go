// Package login spares commands their login profile. A [Table] in the warden keeps the
// environment that the profile leaves (a snapshot) and gives it to a shell that reads
// no profile. [Main] takes a snapshot, in a process of its own: it runs the profile with
// the shell's trace, and refuses one whose effect is more than an environment, or is
// decided by more than the environment, the directory and files whose state it knows.
//
// It decides nothing about commands, and it is no border: whatever it reads is the
// sandbox's own, and a wrong snapshot harms the commands of that sandbox alone.
// docs/explain/login.md has the rules.
package login
