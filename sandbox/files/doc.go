// Package files is the way into the files of a sandbox, for programs outside:
// read, write, list, describe, remove, and copy whole trees as tar archives.
// It is the same for every engine.
//
// An [FS] is one of three:
//
//   - [Directory]: the workspace, where this machine sees it. Nothing is
//     started in the sandbox. Every operation is anchored in an open handle of
//     the workspace (openat2 with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS on
//     Linux, else os.Root), so that whatever a process in the sandbox does to
//     directories and symbolic links meanwhile, nothing outside is read or
//     written. A program that is root acts with the rights of the sandbox's
//     user (setfsuid), and what it makes belongs to that user.
//   - [Commands]: anything that commands in the sandbox can name, by small
//     scripts that the executor runs there: /tmp, and the workspace of an engine
//     on another machine. The sandbox is what confines them.
//   - [Sandbox]: both, by path.
//
// [ReadFile] and [WriteFile] are for a file that fits into memory:
//
//	f, err := box.Files(ctx)
//	…
//	data, err := files.ReadFile(ctx, f, "report.json")
//
// Paths are those of the sandbox: absolute, or relative to the workspace. ".."
// is taken out of a path before symbolic links are followed. Links are followed
// within the workspace; one that leads out of it is refused by a Directory,
// although commands may follow it: what it leads to has to be named itself.
//
// # What is in a sandbox is hostile
//
// Devices, FIFOs and sockets are never opened; archives leave them out. Reading
// and copying stop at limits ([Limits]) of bytes, entries and depth. Archives
// that are unpacked make files, directories and links alone, all below where
// they are unpacked, owned by the sandbox's user, without setuid, setgid and
// sticky bits. Names are bytes: they can hold newlines, and need not be UTF-8.
//
// A Write is complete or not there (a new file takes the place of the old one).
// An Upload is not: what was unpacked before an error stays. A program that is
// killed in the middle of a Write leaves a file that begins with
// ".corral-write-".
package files
