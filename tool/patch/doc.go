// Package patch is the tool apply_patch: it changes several files of a workspace
// as one patch says, all of them or none.
//
// A patch is a text in the grammar that OpenAI's models are trained on
// ([Parse]). It finds lines by what they are, not by their numbers. Everything is
// computed in memory first, so that a patch with any part that does not fit changes
// nothing; then it is put in place with an undo journal, so that a program that is
// killed in the middle changes nothing either, in the end ([Recover]).
//
// While a patch is put in place, a reader sees each file either as before or as
// after it, never in part, but for some milliseconds one file after the other;
// after a crash until the next patch or Recover. No file system has more to
// offer.
//
// The workspace is a [Target]: a directory of this machine, or whatever the
// commands of an executor see. Nothing outside of it is read or written; no
// symbolic link is followed, wherever it points.
//
// A file that is updated loses its extended attributes and ACLs, and the set-user-ID
// bit. docs/reference/apply_patch.md has the grammar, and all that a user may want to
// know.
package patch
