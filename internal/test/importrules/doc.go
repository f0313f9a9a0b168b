// Package importrules holds the rules of the repository that the compiler does
// not know, as tests: which package may import which, what must not be linked
// into the warden, that every package has a doc and no file is long, that links
// between documents lead somewhere, and that what is built is what go.mod says.
// There is nothing in it to import.
//
// The table of imports is in rules_test.go. A package that is not in it is an
// error: a new one is put into its layer there.
package importrules
