// Package boundary says what a sandbox may not have of the machine that it is
// on: which directories are never mounted into it, which networks it never
// joins, which profiles are none.
//
// What is refused is a [Refusal]: a value with the rule, what it was about, why,
// and what to do, for errors and for people who ask beforehand. Nothing here
// makes a container. That what was checked is also what an engine mounts, is
// what a [Pin] is for.
//
// Paths are judged three ways, and refused if any of them says so: as they are
// written (cleaned), after symbolic links (those of the deepest ancestor that
// exists; what does not exist yet cannot lead elsewhere), and by what they are,
// so that a bind mount of /etc elsewhere is /etc. Letter case makes no
// difference, since on some file systems it makes none.
package boundary
