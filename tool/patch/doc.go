// Package patch is the tool apply_patch: it changes several files of a workspace by one
// patch, all of them or none.
//
// A patch is a text in the grammar that OpenAI's models are trained on ([Parse]). It
// finds lines by their content, not by their numbers. The result is first computed in
// memory, so a patch that does not fit changes nothing. Then the files are put in place
// with an undo journal, so a patch that was interrupted by a kill is undone ([Recover]).
//
// A reader sees each file either as before the patch or as after it, never in part. But
// the files change one after the other, within some milliseconds. After a crash, some may
// be changed and others not, until the next patch or Recover. No file system offers more.
//
// The workspace is a [Target]: a directory of this machine, or the directory that the
// commands of an executor see. Nothing outside of it is read or written, and no symbolic
// link is followed.
//
// An updated file loses its extended attributes and ACLs, and the set-user-ID bit.
// docs/reference/apply_patch.md has the grammar and the details for users.
package patch
