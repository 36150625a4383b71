/* pack_main.c -- gen pack on its own, so that the test runs it with sanitizers and before gen is
 * built. */
int pack_main(int argc, char **argv);

int main(int argc, char **argv)
{
    return pack_main(argc, argv);
}
