// Package journal is append-only files of lines with checksums: one that a single program
// has at a time ([File]), and the parts for one that several programs write ([Reader],
// [Place]).
//
// Checksums are those of [Sign], where a line without one is read as earlier versions
// wrote it, or of [Seal]. They show what a disk or a careless hand did; they prove nothing
// against a writer who means to change a file.
//
// # What is on disk when
//
// Append writes a line at once. Then it survives the program; with Options.Sync it is
// synced before Append returns, and survives a power cut too. Compaction writes and syncs
// another file, which takes the name in one step; then the directory is synced.
//
//   - A kill loses the line that was being written, which nobody was told of. It leaves
//     the old file or the compacted one.
//   - A power cut loses, without Sync, the last lines that the system had not yet written.
//   - A full disk: the line is not added, its caller is told, and what was written of it
//     is cut off. If that fails too it is tried again before the next line; but with Sync
//     nothing is added until the journal is compacted or opened anew, since after a failed
//     sync nobody knows what is on disk. A compaction that fails leaves the journal as it was.
//   - A damaged line says nothing: it is kept aside, or with Options.Strict closes the
//     journal.
//
// The journal of package wardenexec is no File: other programs may have added lines after
// one that failed, so nothing is cut off; it may be compacted only while nobody else has it,
// and be replaced by others; and it is read again and again, by offsets.
package journal
