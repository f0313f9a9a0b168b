// Package outlog keeps the output of one process in files: bounded, readable
// from any offset while it grows and after, and exact across the death of the
// program that writes it.
//
// A log is up to three files in a directory, made when first needed:
//
//	ID.out   the bytes: the first Head bytes of the output, then a ring of
//	         Tail bytes. Byte o of the output is at position o as long as
//	         o < Head+Tail, and later at Head + (o-Head) mod Tail.
//	ID.idx   which stream the bytes from an offset on belong to: 8 bytes for
//	         each change of stream, written before the bytes they speak of.
//	ID.pos   once the ring has turned: how far it has been written.
//
// ID.idx and ID.pos have checksums and the number of their format. One that is damaged,
// cut, or of a newer format keeps the log from being opened.
//
// What is where is never held in memory alone. Until the ring turns, the size
// of ID.out is the length of the output, and the kernel moves bytes and size
// together. From then on bytes go through a relay pipe, which another program keeps
// open too. ID.pos says in one word how many bytes were safe before the relay was
// filled and how many it was filled with; what is left in the relay then tells how
// many were written. So a writer that is killed between any two instructions loses
// nothing and repeats nothing.
//
// Power cuts are another matter: nothing here is synced to disk.
package outlog
