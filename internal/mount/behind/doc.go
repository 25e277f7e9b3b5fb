// Package behind collects the content that programs write to files of a mount, and writes it in large pieces.
//
// A write is kept in memory and answered at once. Writes to one file that follow each other become a batch:
// one ordered command with blocks of up to 1 MiB. A full block is stored at once, several at a time, while
// the program continues to write.
//
// # Guarantees
//
//	D1  A batch of a file is ordered after all earlier batches of that file. So other clients see the content
//	    after some of the writes, in their order.
//	D2  Content is ordered at the latest when Flush of the file or FlushAll has returned, otherwise about
//	    Delay after the write. An operation that must see, or be ordered after, earlier writes calls Flush
//	    before.
//	D3  Each write with Append is in one command: the content of one write stays together.
//	D4  A batch that could not be ordered is lost. FlushHandle reports this once for each handle that was open
//	    then, and before that each FlushDescriptor reports it. The log names the inode. From then on writes to
//	    the file are not kept (Write reports false), until its last handle is closed. If servers did not
//	    answer, the batches that were sealed after it are lost at once.
//	D5  Attributes that a file's owner sets, while content of the new file is kept, are kept with it
//	    (SetAttr): the file gets its content and then these attributes. The mode and the times that the owner
//	    gets in the answer stay true, except for the time of the last change.
//	D6  The content in memory, with the memory of each batch beside it, is bounded. A write that does not
//	    fit waits until other content was ordered. Far files have at most half of the memory, so near
//	    files, except those that were far, do not wait for servers of other regions. A file has at most
//	    64 sealed batches: a further write is not kept.
//
// The package knows neither FUSE nor the client: it reaches the cluster through Store.
package behind
