// Package segfile is the format of the files that hold blocks, and the reading of them: packages disk and
// diskcache write such files. A segment is named by its number, %08x.seg. It is a sequence of records,
// numbers little endian, without padding:
//
//	 0   4  "GBK1"
//	 4  16  id
//	20   4  length of the data
//	24   4  CRC32C of id and data
//	28   4  CRC32C of the 28 bytes before
//	32      data
package segfile
