// Package engine is what a sandbox asks of a container engine: the interface
// [Engine], what goes through it ([Spec], [Mount], [Container], [Info]), and what only
// some engines can do ([ExecEngine], [Filler], [StatsEngine], [VolumeEngine]).
// Packages sandbox/docker and sandbox/containerd implement it.
package engine
