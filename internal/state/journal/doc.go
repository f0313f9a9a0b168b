// Package journal tells damaged lines of an append-only file from those that are as
// they were written, and keeps the damaged ones aside.
//
// A line that ends with a JSON object is signed by a last member of that object: the
// checksum of everything before it. Programs that do not know of it read the line all
// the same, and a line without one is read as earlier versions wrote it. A checksum
// shows what a disk or a careless hand did; it proves nothing against a writer who
// means to change a file.
//
// What is synced, what is locked and what a line says is up to its users: packages
// session, internal/warden/wardenexec, internal/fleet/pairing and policy/approval.
package journal
