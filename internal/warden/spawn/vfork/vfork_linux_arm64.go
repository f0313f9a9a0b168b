package vfork

const getrlimit = 163 // the number of the system call
