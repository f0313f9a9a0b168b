// Package journal reads and writes append-only files of lines with checksums. A [File]
// belongs to one program at a time. [Reader] and [Place] are the parts for a journal
// that several programs write.
//
// [Sign] and [Seal] make the checksums. With Sign a line without a checksum is
// accepted, since earlier versions wrote such lines. Checksums detect faults of disks
// and mistakes of people; they prove nothing against a writer who changes a file on
// purpose.
//
// # What is on disk when
//
// Append writes a line at once, so it survives the program. With Options.Sync the line
// is synced before Append returns, and survives a power cut, too. Compaction writes and
// syncs another file, renames it in one step, and then syncs the directory.
//
//   - A kill loses only the line that was being written, and no caller was told of that line.
//     It leaves the old file or the compacted one.
//   - A power cut loses, without Sync, the last lines that the system had not yet written.
//   - A full disk: the line is not added, its caller gets an error, and the partial line is cut
//     off. If cutting fails too, it is tried again before the next line. With Sync nothing is
//     added until the journal is compacted or opened again, since after a failed sync the
//     state of the disk is unknown. A failed compaction leaves the journal as it was.
//   - A damaged line is ignored and kept aside; with Options.Strict it closes the journal.
//
// The journal of package wardenexec is no File. Other programs may have added lines
// after a failed one, so nothing may be cut off. It may be compacted only while no
// other program has it open, and other programs may replace it. And it is read
// repeatedly, by offsets.
package journal
