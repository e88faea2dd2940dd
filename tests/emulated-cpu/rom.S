# The firmware of the emulated machine: a 64 KiB ROM that ends at 4 GiB, where a CPU starts.
#
# It loads what `run` has put on the first ATA disk, maps the first 4 GiB one to one and enters the program in 64-bit
# mode with interrupts off. Sector 0 has a table of 12-byte entries: address in memory, first sector, number of sectors;
# an entry of no sectors ends it, with the program's entry point as its address.

.set TABLE, 0x8000
.set PAGES, 0x1000                      # a PML4, a PDPT and four page directories

.text
.code16
rom:
    cli
    cld
    lgdtl %cs:(gdt_pointer - rom)
    movl %cr0, %eax
    orb $1, %al                         # PE
    movl %eax, %cr0
    ljmpl $0x08, $protected

.code32
protected:
    movw $0x18, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movl $0x7f00, %esp
    movl $TABLE, %edi
    xorl %ebx, %ebx
    movl $1, %ebp
    call read
    movl $TABLE, %esi
load:
    movl (%esi), %edi
    movl 4(%esi), %ebx
    movl 8(%esi), %ebp
    testl %ebp, %ebp
    jz loaded
    call read
    addl $12, %esi
    jmp load

loaded:                                 # the entry point is in %edi
    movl %edi, %esi
    movl $PAGES, %edi
    xorl %eax, %eax
    movl $(2 * 4096 / 4), %ecx
    rep stosl
    movl $(PAGES + 0x1003), PAGES
    movl $(PAGES + 0x2003), PAGES + 0x1000
    movl $(PAGES + 0x3003), PAGES + 0x1008
    movl $(PAGES + 0x4003), PAGES + 0x1010
    movl $(PAGES + 0x5003), PAGES + 0x1018
    movl $0x83, %eax                    # 2 MiB pages, present and writable
    movl $(4 * 512), %ecx
map:
    movl %eax, (%edi)
    movl $0, 4(%edi)
    addl $0x200000, %eax
    addl $8, %edi
    loop map
    movl $0x20, %eax                    # PAE
    movl %eax, %cr4
    movl $PAGES, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx              # EFER
    rdmsr
    btsl $8, %eax                       # LME
    wrmsr
    movl %cr0, %eax
    btsl $31, %eax                      # PG
    movl %eax, %cr0
    ljmp $0x10, $long

# Reads %ebp sectors from number %ebx on to %edi, all of which it moves on (ATA, READ SECTORS with 28-bit addresses).
read:
    movl $255, %ecx
    cmpl %ecx, %ebp
    jae command
    movl %ebp, %ecx
command:
    movw $0x1f2, %dx
    movb %cl, %al
    outb %al, %dx
    movl %ebx, %eax
    incl %edx
    outb %al, %dx
    shrl $8, %eax
    incl %edx
    outb %al, %dx
    shrl $8, %eax
    incl %edx
    outb %al, %dx
    shrl $8, %eax
    orb $0xe0, %al
    incl %edx
    outb %al, %dx
    movb $0x20, %al
    incl %edx
    outb %al, %dx
    addl %ecx, %ebx
    subl %ecx, %ebp
sector:
    movw $0x1f7, %dx
    inb %dx, %al
    andb $0x88, %al                     # busy, data request
    cmpb $0x08, %al
    jne sector
    movw $0x1f0, %dx
    pushl %ecx
    movl $(512 / 4), %ecx
    rep insl
    popl %ecx
    loop sector
    testl %ebp, %ebp
    jnz read
    ret

.code64
long:
    movw $0x18, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movl %esi, %eax
    jmp *%rax

.balign 8
gdt:
    .quad 0, 0x00cf9b000000ffff, 0x00af9b000000ffff, 0x00cf93000000ffff
gdt_pointer:
    .word 31
    .long gdt

.org 0xfff0
.code16
    jmp rom
.org 0x10000
